#pragma once

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {

/// The built module if it finds a device, emulated or not, else null.
inline const CudaModule* module_with_device() {
  try {
    return &CudaModule::get();
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace hgt
