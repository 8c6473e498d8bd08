#pragma once

// For sources of the CUDA module only: each op's launcher, in <op>.cu or <op>.cpp. Launchers throw
// Error.

#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cuda {

#define HGT_LAUNCHER(op, Args) void op(const Args& args, CudaStreamState& stream);
HGT_CUDA_OPS(HGT_LAUNCHER)
#undef HGT_LAUNCHER

/// An epilogue for gemm: y[rows, columns] += bias[columns]; the rows lie `stride` apart.
struct AddBiasArgs {
  void* y;
  const void* bias;
  DType type;
  std::int64_t rows, columns, stride;
};
void add_bias(const AddBiasArgs& args, CudaStreamState& stream);

/// An epilogue for gemm: sums[columns] += the sum over the rows of x[rows, columns].
struct AddColumnSumsArgs {
  const void* x;
  DType type;
  float* sums;
  std::int64_t rows, columns, stride;
};
void add_column_sums(const AddColumnSumsArgs& args, CudaStreamState& stream);

}  // namespace hgt::cuda
