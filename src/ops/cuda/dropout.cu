#include "dropout.h"
#include "kernel.h"

// Bytes moved: each operand once.

namespace hgt::cuda {
namespace {

// Each 64 elements of a sample share 16 counters, with one word of each for every 16 elements: a
// thread takes the same vector of all four groups of 16, so that it uses all words that it draws.
constexpr int kBlock = 64, kWords = 4, kCounters = 16;

template <class T>
__global__ void add_dropped(DropoutAddArgs args) {
  constexpr std::int64_t kParts = kCounters / kVector<T>;  // threads per 64 elements
  const std::int64_t blocks = (args.per_sample + kBlock - 1) / kBlock;
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t sample = at / kParts / blocks, block = at / kParts % blocks;
  if (sample * args.per_sample >= args.count) return;
  const std::int64_t part = at % kParts * kVector<T>;
  Vector<T> x[kWords], branch[kWords];
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    const std::int64_t element = block * kBlock + word * kCounters + part;
    const std::int64_t i = sample * args.per_sample + element, left = args.per_sample - element;
    branch[word] = read(static_cast<const T*>(args.branch) + i, left);
    x[word] = read(args.x ? static_cast<const T*>(args.x) + i : nullptr, args.x ? left : 0);
  }
  const DropoutRow row(args.dropout, sample);
  Vector<T> y[kWords];
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) {
    const auto factors = row.factors(block * kCounters + part + i);
#pragma unroll
    for (int word = 0; word < kWords; ++word)
      y[word].set(i, branch[word][i] * factors[word] + x[word][i]);
  }
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    const std::int64_t element = block * kBlock + word * kCounters + part;
    write(static_cast<T*>(args.y) + sample * args.per_sample + element, y[word],
          args.per_sample - element);
  }
}

}  // namespace

void dropout_add(const DropoutAddArgs& args, CudaStreamState& stream) {
  if (args.count == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    const std::int64_t blocks = (args.per_sample + kBlock - 1) / kBlock;
    const std::int64_t threads = args.count / args.per_sample * blocks * kCounters / kVector<T>;
    launch(add_dropped<T>, {{blocks_for(threads, 256)}, {256}}, stream, args);
  });
}

}  // namespace hgt::cuda
