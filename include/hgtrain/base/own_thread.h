#pragma once

#include <chrono>
#include <future>
#include <thread>
#include <type_traits>
#include <utility>

namespace hgt {

/// What `act` returns or throws, which a thread of its own calls. Nobody has to wait for that: it
/// is for calls that cannot be interrupted, such as getaddrinfo() while name servers do not answer.
template <class Act>
auto in_own_thread(Act act) {
  std::packaged_task<std::invoke_result_t<Act>()> task(std::move(act));
  auto out = task.get_future();
  std::thread(std::move(task)).detach();
  return out;
}

template <class Future>
bool is_ready(const Future& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace hgt
