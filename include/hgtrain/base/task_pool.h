#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace hgt {

/// Threads that run tasks in the order given. The destructor drops tasks that have not begun, and
/// waits for the others.
class TaskPool {
 public:
  explicit TaskPool(std::size_t threads);
  ~TaskPool();

  /// The future holds what `task` returned or threw.
  template <class Task>
  auto run(Task task) {
    auto packaged = std::make_shared<std::packaged_task<decltype(task())()>>(std::move(task));
    auto future = packaged->get_future();
    push([packaged] { (*packaged)(); });
    return future;
  }

 private:
  void push(std::function<void()> task);
  void stop();
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hgt
