#include "cuda_column_sums.h"
#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void add_bias_elements(AddBiasArgs args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= args.rows * args.columns) return;
  const std::int64_t row = i / args.columns, column = i % args.columns;
  args.y[row * args.stride + column] += args.bias[column];
}

struct PartialArgs {
  AddColumnSumsArgs op;
  float* partial;  ///< [chunk][columns]
};

__global__ void sum_columns(PartialArgs args) {
  const AddColumnSumsArgs& op = args.op;
  const std::int64_t c = column_of_thread();
  if (c >= op.columns) return;
  const RowChunk chunk = row_chunk(op.rows);
  float sum = 0;
  for (std::int64_t n = chunk.begin; n < chunk.end; ++n) sum += op.x[n * op.stride + c];
  args.partial[blockIdx.y * op.columns + c] = sum;
}

}  // namespace

void add_bias(const AddBiasArgs& args, CudaStreamState& stream) {
  launch(add_bias_elements, {{blocks_for(args.rows * args.columns, kThreads)}, {kThreads}}, stream,
         args);
}

void add_column_sums(const AddColumnSumsArgs& args, CudaStreamState& stream) {
  float* const partial = stream.scratch<float>(kRowChunks * args.columns);
  launch(sum_columns, column_shape(args.columns), stream, PartialArgs{args, partial});
  launch_add_chunks(stream, {partial, args.columns, args.sums, args.columns});
}

}  // namespace hgt::cuda
