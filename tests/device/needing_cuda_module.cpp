// A module of this build that needs libhgt_needed.so.9.

#include "hgtrain/device/cuda_table.h"

#include "cuda_table_version.h"

extern "C" int hgt_needed();

static const hgt::CudaDeviceTable kDevice = [] {
  hgt::CudaDeviceTable table{};
  table.probe = [](hgt::CudaProbe* out) -> hgt::CudaResult {
    *out = {};
    return nullptr;
  };
  return table;
}();

extern "C" const hgt::CudaTables* hgtrain_cuda_tables() {
  static const hgt::CudaTables tables = {hgt_needed() == 9 ? hgt::kCudaTableVersion : 0, "needing",
                                         &kDevice, nullptr, nullptr};
  return &tables;
}
