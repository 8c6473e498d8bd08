// A module that opens but is of another build, or of this one, as FAKE_VERSION says. Its runtime
// has the status FAKE_STATUS.

#include <cstdio>
#include <cstdlib>

#include "hgtrain/device/cuda_table.h"

namespace {

hgt::CudaResult probe(hgt::CudaProbe* out) {
  const char* status = std::getenv("FAKE_STATUS");
  *out = {};
  out->status = status == nullptr ? 0 : std::atoi(status);
  out->runtime_version = 13000;
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
  static const hgt::CudaTables tables = {FAKE_VERSION, "fake, CUDA 13.0, sm_75 sm_90", &kDevice,
                                         nullptr, nullptr};
  return &tables;
}
