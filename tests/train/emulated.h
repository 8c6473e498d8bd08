#pragma once

#include <cstring>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {

/// Whether the CUDA module that is found is the emulated one (tests/emulation).
inline bool has_emulation() {
  try {
    return std::strstr(CudaModule::get().tables().build, "emulation") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace hgt
