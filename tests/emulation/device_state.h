#pragma once

/// The emulated device as a test may want it.
namespace hgt::emulation {

struct DeviceState {
  double clock_us = 0;     ///< a kernel takes 1, a product what tests/emulation/cublas.cpp says
  bool capturing = false;  ///< streams take no call that a capture forbids
  bool full = false;       ///< cudaMalloc fails
};
inline DeviceState device_state;

}  // namespace hgt::emulation
