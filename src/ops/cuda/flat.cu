// Fills, casts and sums over flat buffers. Bytes moved: fills and sums of values move 4 per
// element, casts an element of each type.

#include "kernel.h"

namespace hgt::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads) fill_elements(FillArgs args) {
  if (args.unless && *args.unless != 0) return;
  const std::int64_t at = first_of_thread<float>();
  Vector<float> values;
#pragma unroll
  for (int i = 0; i < kVector<float>; ++i) values.set(i, args.value);
  write(args.values + at, values, args.count - at);
}

template <class To, class From>
__global__ void __launch_bounds__(kBlockThreads) cast_elements(CastArgs args) {
  constexpr int kElements = kLongerVector<To, From>;
  const std::int64_t at = first_of_thread(kElements), left = args.count - at;
  Floats<kElements> elements;
  elements.template read<From>(args.from, at, left);
  elements.template write<To>(args.to, at, left);
}

__global__ void __launch_bounds__(kBlockThreads) accumulate_elements(AccumulateArgs args) {
  if (args.unless && *args.unless != 0) return;
  const std::int64_t at = first_of_thread<float>(), left = args.count - at;
  Vector<float> values = read(args.from + at, left);
  if (!args.first) {
    const Vector<float> sums = read(args.to + at, left);
#pragma unroll
    for (int i = 0; i < kVector<float>; ++i) values.set(i, sums[i] + values[i]);
  }
  write(args.to + at, values, left);
}

constexpr std::int64_t kSummedPerBlock = FlatPiece::kMaxElements;

/// The sum over `count` values, or over their squares, on every thread of a block.
template <bool kSquares>
__device__ double sum_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x * kVector<float>; i < count; i += blockDim.x * kVector<float>) {
    const Vector<float> part = read(values + i, count - i);
#pragma unroll
    for (int j = 0; j < kVector<float>; ++j) {
      const double x = part[j];
      sum += kSquares ? x * x : x;
    }
  }
  return block_sum(sum);
}

// One block per piece.
__global__ void __launch_bounds__(kBlockThreads) square_pieces(SquaresOfPiecesArgs args) {
  const FlatPiece piece = args.pieces[blockIdx.x];
  const float* const values = static_cast<const float*>(args.values.data);
  const double sum = sum_of<true>(values + args.values.place(piece), piece.end - piece.begin);
  if (threadIdx.x == 0) args.out[piece.number] = sum;
}

struct PartsArgs {
  const float* values;
  std::int64_t count;
  double* parts;
};

__global__ void __launch_bounds__(kBlockThreads) sum_parts(PartsArgs args) {
  const std::int64_t begin = blockIdx.x * kSummedPerBlock, left = args.count - begin;
  const double sum =
      sum_of<false>(args.values + begin, left < kSummedPerBlock ? left : kSummedPerBlock);
  if (threadIdx.x == 0) args.parts[blockIdx.x] = sum;
}

struct TotalArgs {
  const double* parts;
  std::int64_t count;
  double* out;
};

__global__ void __launch_bounds__(kBlockThreads) sum_total(TotalArgs args) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) sum += args.parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *args.out = sum;
}

}  // namespace

void fill(const FillArgs& args, CudaStreamState& stream) {
  launch(fill_elements, vectors_shape<float>(args.count), stream, args);
}

void cast(const CastArgs& args, CudaStreamState& stream) {
  if (args.from_type != DType::kF32 && args.to_type != DType::kF32)
    throw Error(ErrorKind::kInternal, "a cast needs fp32 on one side");
  visit_element(args.from_type, [&]<class From>(From) {
    visit_element(args.to_type, [&]<class To>(To) {
      if constexpr (std::is_same_v<From, float> || std::is_same_v<To, float>)
        launch(cast_elements<To, From>, elements_shape(args.count, kLongerVector<To, From>), stream,
               args);
    });
  });
}

void accumulate(const AccumulateArgs& args, CudaStreamState& stream) {
  launch(accumulate_elements, vectors_shape<float>(args.count), stream, args);
}

void squares_of_pieces(const SquaresOfPiecesArgs& args, CudaStreamState& stream) {
  launch(square_pieces, {{blocks_for(args.piece_count, 1)}, {kBlockThreads}}, stream, args);
}

void sum(const SumArgs& args, CudaStreamState& stream) {
  const unsigned blocks = blocks_for(args.count, 1, kSummedPerBlock);
  double* const parts = stream.scratch<double>(blocks);
  launch(sum_parts, {{blocks}, {kBlockThreads}}, stream, PartsArgs{args.values, args.count, parts});
  launch(sum_total, {{1}, {kBlockThreads}}, stream, TotalArgs{parts, blocks, args.out});
}

}  // namespace hgt::cuda
