// A module that opens but is of another build, or of this one, as FAKE_VERSION says, with the CUDA
// version FAKE_CUDA. Its driver serves FAKE_DRIVER_CUDA, and its runtime has the status FAKE_STATUS
// if the driver is not too old.

#include <cstdio>
#include <cstdlib>

#include "hgtrain/device/cuda_table.h"

#include "cuda_table_version.h"

namespace {

hgt::CudaResult probe(hgt::CudaProbe* out) {
  constexpr int kInsufficientDriver = 35;
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  *out = {};
  out->runtime_version = FAKE_CUDA;
  out->driver_version = number("FAKE_DRIVER_CUDA", 13010);
  out->status = out->driver_version / 1000 < FAKE_CUDA / 1000 ? kInsufficientDriver
                                                              : number("FAKE_STATUS", 0);
  std::snprintf(out->status_text, sizeof out->status_text, "as the test wants it");
  return nullptr;
}

const hgt::CudaDeviceTable kDevice = [] {
  hgt::CudaDeviceTable table{};
  table.probe = probe;
  return table;
}();

}  // namespace

extern "C" const hgt::CudaTables* hgtrain_cuda_tables() {
  static const hgt::CudaTables tables = {
      FAKE_VERSION,
      FAKE_CUDA < 13000 ? "fake, CUDA 12.4, sm_70 sm_90" : "fake, CUDA 13.0, sm_75 sm_90", &kDevice,
      nullptr, nullptr};
  return &tables;
}
