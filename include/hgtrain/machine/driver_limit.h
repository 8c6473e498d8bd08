#pragma once

#include <chrono>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/own_thread.h"

namespace hgt {

/// A driver needs up to 20 s to start eight GPUs without persistence mode.
inline constexpr std::chrono::seconds kDriverLimit{60};

/// What `act` returns, which asks the GPU driver. Error(kDevice) if the driver does not answer
/// within `limit`; then the thread that asks is left behind.
template <class Act>
auto within_driver_limit(Act act, std::chrono::milliseconds limit = kDriverLimit) {
  auto answer = in_own_thread(std::move(act));
  if (answer.wait_for(limit) != std::future_status::ready)
    throw Error(ErrorKind::kDevice,
                fmt::format("the GPU driver has not answered for {:g} s",
                            std::chrono::duration<double>(limit).count()),
                "most likely, nvidia-smi hangs, too; `dmesg` may name the GPU that has failed");
  return answer.get();
}

}  // namespace hgt
