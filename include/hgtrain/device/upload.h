#pragma once

#include <cstddef>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// Copies ordinary host memory to memory of the stream's device, through two page-locked chunks:
/// the host fills one while the device copies the other. On the CPU it copies the memory. Returns
/// when all is there.
void upload(void* to, const void* from, std::size_t bytes, Stream stream);

/// A buffer of host memory on the stream's device: a copy, or the buffer itself on the CPU.
Buffer uploaded(Buffer host, Stream stream);

}  // namespace hgt
