// The one function hgtrain_cuda.so exports.

#include "hgtrain/device/cuda_table.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "cuda_table_version.h"

namespace hgt {

extern "C" __attribute__((visibility("default"))) const CudaTables* hgtrain_cuda_tables() {
  static const CudaTables tables = {
      .version = kCudaTableVersion,
      .build = HGT_CUDA_BUILD,
      .device = cuda_device_table(),
      .ops = cuda_ops_table(),
      .comm = cuda_comm_table(),
  };
  return &tables;
}

}  // namespace hgt
