#include "hgtrain/base/task_pool.h"

namespace hgt {

TaskPool::TaskPool(std::size_t threads) {
  try {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {  // the system has no thread left
    stop();
    throw;
  }
}

TaskPool::~TaskPool() {
  stop();
}

void TaskPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void TaskPool::work() {
  while (true) {
    std::function<void()> task;  // destroyed without the lock: that may take time, too
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace hgt
