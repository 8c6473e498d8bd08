#pragma once

#include <span>
#include <string>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// A copy of the values in memory of the stream's device.
template <class T>
Buffer device_copy(std::string name, std::span<const T> values, Stream stream) {
  Buffer out(std::move(name), static_cast<std::int64_t>(values.size_bytes()), stream.device());
  stream.copy(out.data(), values.data(), values.size_bytes());
  stream.synchronize();  // the values may be freed on return
  return out;
}

}  // namespace hgt
