#include "collective_watch.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/trace.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{20};

}  // namespace

CollectiveWatch::CollectiveWatch(NcclConnection& connection)
    : connection_(connection), thread_([this] { watch(); }) {}

void CollectiveWatch::add(PendingCollective one) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(one));
}

void CollectiveWatch::make_wait(std::uint64_t number, const CudaQueue& queue) {
  const std::lock_guard lock(mutex_);
  for (const PendingCollective& one : pending_)
    if (one.what.sequence == number) one.finished.make_wait(queue);
}

void CollectiveWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool CollectiveWatch::all_done() const noexcept {
  try {
    return std::all_of(pending_.begin(), pending_.end(),
                       [](const PendingCollective& one) { return one.finished.done(); });
  } catch (const Error&) {
    return false;
  }
}

void CollectiveWatch::watch() {
  name_thread("communication");
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kWatchInterval, [&] { return stopping_; })) {
    if (connection_.has_failed()) continue;
    if (const auto error = poll_oldest()) {
      connection_.fail(*error);
      lock.unlock();
      connection_.abort();
      lock.lock();
    }
  }
}

/// Removes finished collectives; returns what is wrong with the oldest of the others.
std::optional<Error> CollectiveWatch::poll_oldest() {
  using Clock = NcclConnection::Clock;
  try {
    while (!pending_.empty() && pending_.front().finished.done()) pending_.pop_front();
    if (pending_.empty()) return std::nullopt;
    PendingCollective& oldest = pending_.front();
    (void)connection_.ready();
    if (!oldest.since && oldest.entered.done()) oldest.since = Clock::now();
    if (oldest.since && Clock::now() - *oldest.since >= connection_.timeout())
      throw connection_.timeout_error();
    return std::nullopt;
  } catch (Error& error) {
    return error.in(pending_.front().what.text());
  }
}

}  // namespace hgt
