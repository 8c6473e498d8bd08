#pragma once

#include <cstddef>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// The queues on which a GPU copies from and to page-locked host memory while it computes, and how
/// far these and its compute queue have come.
struct HostCopies {
  HostCopies(const CudaQueue& compute, std::size_t units)
      : to_host(compute.device(), compute.module()),
        to_device(compute.device(), compute.module()),
        computed(compute),
        copied(compute) {
    for (std::size_t i = 0; i < units; ++i)
      arrived.emplace_back(compute), left.emplace_back(compute);
  }

  const CudaQueue to_host, to_device;
  CudaEvent computed, copied;  ///< recorded just before they are waited for
  std::vector<CudaEvent> arrived,
      left;  ///< by unit: its weights are on the device, its sum is on the host
};

/// Work queued on `queue` from now on runs after all work queued on `other` so far.
inline void order_after(const CudaQueue& queue, const CudaQueue& other, CudaEvent& event) {
  event.record(other);
  event.make_wait(queue);
}

/// Blocks until the point has been passed. Throws the communicator's error if it failed in that
/// time, because the device may then wait for ever.
inline void wait_on_host(const CudaEvent& event, Communicator& comm) {
  event.wait([&] { comm.check(); });
}

}  // namespace hgt
