#pragma once

#include <cstdint>

/// The emulated device as a test may want it.
namespace hgt::emulation {

struct DeviceState {
  double clock_us = 0;  ///< a kernel takes 1, a product what tests/emulation/cublas.cpp says
  bool full = false;    ///< cudaMalloc fails
  /// Of a grid of more blocks, only the first 8 and the last 8 run: with memory of which only their
  /// pages exist (device_memory.h), kernels can be given more elements than the host has room for.
  std::uint64_t most_blocks = ~std::uint64_t{0};
};
inline DeviceState device_state;

}  // namespace hgt::emulation
