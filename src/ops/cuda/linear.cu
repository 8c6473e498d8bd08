#include "rows.h"

// Bytes moved: y twice, x once, and partial sums of at most 4 MiB.

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// A thread takes a vector of columns of every `chunks`-th row.
struct Cut {
  unsigned blocks;  ///< over columns
  unsigned chunks;  ///< over rows
};

Cut cut_of(std::int64_t rows, std::int64_t columns, int vector) {
  constexpr std::int64_t kMaxChunks = 65535;  // limit of a grid's second dimension
  const std::int64_t vectors = std::max<std::int64_t>((columns + vector - 1) / vector, 1);
  return {blocks_for(vectors, kThreads),
          static_cast<unsigned>(std::min(chunks_for(rows, vectors), kMaxChunks))};
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_bias_elements(AddBiasArgs args) {
  const std::int64_t c = first_of_thread<T>(), left = args.columns - c;
  if (left <= 0) return;
  const Vector<T> bias = read(static_cast<const T*>(args.bias) + c, left);
  for (std::int64_t n = blockIdx.y; n < args.rows; n += gridDim.y) {
    T* const at = static_cast<T*>(args.y) + n * args.stride + c;
    Vector<T> y = read(at, left);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) y.set(i, y[i] + bias[i]);
    write(at, y, left);
  }
}

struct PartialArgs {
  AddColumnSumsArgs op;
  float* partial;  ///< [chunk][columns]
};

template <class T>
__global__ void __launch_bounds__(kThreads) sum_columns(PartialArgs args) {
  const AddColumnSumsArgs& op = args.op;
  const std::int64_t c = first_of_thread<T>(), left = op.columns - c;
  if (left <= 0) return;
  float sums[kVector<T>] = {};
#pragma unroll 4
  for (std::int64_t n = blockIdx.y; n < op.rows; n += gridDim.y) {
    const Vector<T> x = read(static_cast<const T*>(op.x) + n * op.stride + c, left);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) sums[i] += x[i];
  }
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    if (i < left) args.partial[blockIdx.y * op.columns + c + i] = sums[i];
}

}  // namespace

void add_bias(const AddBiasArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const Cut cut = cut_of(args.rows, args.columns, kVector<T>);
    launch(add_bias_elements<T>, {{cut.blocks, cut.chunks}, {kThreads}}, stream, args);
  });
}

void add_column_sums(const AddColumnSumsArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const Cut cut = cut_of(args.rows, args.columns, kVector<T>);
    float* const partial = stream.scratch<float>(cut.chunks * args.columns);
    launch(sum_columns<T>, {{cut.blocks, cut.chunks}, {kThreads}}, stream,
           PartialArgs{args, partial});
    launch_add_chunks(stream,
                      {partial, cut.chunks, args.columns, args.sums, nullptr, args.columns});
  });
}

}  // namespace hgt::cuda
