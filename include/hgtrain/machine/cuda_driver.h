#pragma once

#include <string>

namespace hgt {

/// What the driver's own library (libcuda) reports. This program links no CUDA, and asking touches
/// no device.
struct CudaDriver {
  bool opened = false;
  std::string why{};    ///< the dynamic linker's message, if it was not opened
  bool absent = false;  ///< there is no such library
  int result = -1;      ///< CUresult of cuInit
  int version = 0;      ///< highest CUDA version it supports: 13000 is 13.0; 0: not known
  int devices = 0;      ///< how many CUDA_VISIBLE_DEVICES leaves
};

CudaDriver ask_cuda_driver(const std::string& library = "libcuda.so.1");

/// "13.0" for 13000.
std::string cuda_version_text(int version);

/// What to do if the driver is too old for the CUDA version of this build. No build is for CUDA 11.
std::string hint_for_old_driver(int driver_version);

}  // namespace hgt
