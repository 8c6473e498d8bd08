#pragma once

#include "hgtrain/config/config.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// Error(kDevice) where the job takes more than is free on the stream's GPU: what it asks, by kind,
/// what is free, and the largest micro-batch that fits. Nothing has been allocated by then.
void require_memory(const Config& config, const Stream& stream);

}  // namespace hgt
