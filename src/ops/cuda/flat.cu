// Fills, casts and sums over flat buffers. Bytes moved: fills and sums move 4 per element, casts an
// element of each type.

#include "kernel.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void fill_elements(FillArgs args) {
  if (args.unless && *args.unless != 0) return;
  const std::int64_t at = first_of_thread<float>();
  Vector<float> values;
#pragma unroll
  for (int i = 0; i < kVector<float>; ++i) values.set(i, args.value);
  write(args.values + at, values, args.count - at);
}

template <class To, class From>
__global__ void cast_elements(CastArgs args) {
  constexpr int kElements = kLongerVector<To, From>;
  const std::int64_t at = first_of_thread(kElements), left = args.count - at;
  Floats<kElements> elements;
  elements.template read<From>(args.from, at, left);
  elements.template write<To>(args.to, at, left);
}

constexpr std::int64_t kSummedPerBlock = 16384;

/// Sums values or their squares, one sum per block.
struct PartsArgs {
  const float* values;
  std::int64_t count;
  bool squares;
  double* parts;
};

__global__ void sum_parts(PartsArgs args) {
  const std::int64_t begin = blockIdx.x * kSummedPerBlock;
  const std::int64_t end =
      begin + kSummedPerBlock < args.count ? begin + kSummedPerBlock : args.count;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x * kVector<float>; i < end;
       i += blockDim.x * kVector<float>) {
    const Vector<float> part = read(args.values + i, end - i);
#pragma unroll
    for (int j = 0; j < kVector<float>; ++j) {
      const double x = part[j];
      sum += args.squares ? x * x : x;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) args.parts[blockIdx.x] = sum;
}

struct TotalArgs {
  const double* parts;
  std::int64_t count;
  double* out;
};

__global__ void sum_total(TotalArgs args) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) sum += args.parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *args.out = sum;
}

void sum_values(const float* values, std::int64_t count, bool squares, double* out,
                CudaStreamState& stream) {
  const unsigned blocks = blocks_for(count, 1, kSummedPerBlock);
  double* const parts = stream.scratch<double>(blocks);
  launch(sum_parts, {{blocks}, {kThreads}}, stream, PartsArgs{values, count, squares, parts});
  launch(sum_total, {{1}, {kThreads}}, stream, TotalArgs{parts, blocks, out});
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

void sum_of_squares(const SumOfSquaresArgs& args, CudaStreamState& stream) {
  sum_values(args.values, args.count, true, args.out, stream);
}

void sum(const SumArgs& args, CudaStreamState& stream) {
  sum_values(args.values, args.count, false, args.out, stream);
}

}  // namespace hgt::cuda
