// The one function hgtrain_cuda.so exports.

#include "hgtrain/device/cuda_device.h"
#include "hgtrain/device/cuda_table.h"

namespace hgt {

extern "C" __attribute__((visibility("default"))) const CudaTables* hgtrain_cuda_tables() {
  static const CudaTables tables = {
      .version = kCudaTableVersion,
      .build = HGT_CUDA_BUILD,
      .device = cuda_device_table(),
      .ops = nullptr,
      .comm = nullptr,
  };
  return &tables;
}

}  // namespace hgt
