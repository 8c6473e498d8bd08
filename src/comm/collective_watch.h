#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_queue.h"

#include "announcement.h"
#include "nccl_connection.h"

namespace hgt {

/// A collective of device memory that has been queued on the device.
struct PendingCollective {
  Announcement what;
  CudaEvent entered, finished;
  std::optional<NcclConnection::Clock::time_point> since = {};  ///< when it was first seen entered
};

/// The collectives that are queued on the device. A thread watches them; if they fail or take too
/// long, it sets the connection's failure and aborts NCCL.
class CollectiveWatch {
 public:
  explicit CollectiveWatch(NcclConnection& connection);
  ~CollectiveWatch() { stop(); }
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

  /// Adds a collective, in the order of their numbers.
  void add(PendingCollective one);
  /// Work that is queued on `queue` from now on waits for the collective with that number.
  void make_wait(std::uint64_t number, const CudaQueue& queue);
  void stop();
  /// Whether nothing is left on the device; after stop().
  bool all_done() const noexcept;

 private:
  void watch();
  std::optional<Error> poll_oldest();

  NcclConnection& connection_;
  std::mutex mutex_;  ///< guards what follows
  std::deque<PendingCollective> pending_;
  bool stopping_ = false;
  std::condition_variable stopped_;
  std::thread thread_;
};

}  // namespace hgt
