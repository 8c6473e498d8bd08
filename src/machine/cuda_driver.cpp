#include "hgtrain/machine/cuda_driver.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "hgtrain/machine/library_search.h"

namespace hgt {
namespace {

/// The call's CUresult; -1 if the library lacks the function.
template <class... Args>
int call(void* library, const char* name, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  return function == nullptr ? -1 : function(args...);
}

}  // namespace

CudaDriver ask_cuda_driver(const std::string& library) {
  CudaDriver driver;
  const OpenedLibrary found = open_library(library, {});
  driver.opened = found.handle != nullptr;
  driver.absent = found.missing == library;
  driver.why = found.why;
  if (!driver.opened) return driver;
  if (call(found.handle, "cuDriverGetVersion", &driver.version) != 0) driver.version = 0;
  driver.result = call(found.handle, "cuInit", 0U);
  if (driver.result == 0) call(found.handle, "cuDeviceGetCount", &driver.devices);
  return driver;  // the library stays open: it does not support being unloaded
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string hint_for_old_driver(int driver_version) {
  return fmt::format("update the driver (CUDA 12 needs 525.60 or newer, CUDA 13 580.65){}",
                     driver_version / 1000 == 12 ? ", or build with a CUDA 12 toolkit" : "");
}

}  // namespace hgt
