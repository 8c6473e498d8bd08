#include "kernel.h"

// Bytes moved: the forward reads the logits once; with a gradient it reads them twice, the second
// time mostly from the L2 cache, and writes them once.

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 512;

/// A maximum, and the sum of exp(x - maximum) over the numbers added.
struct Softmax {
  float highest = -INFINITY, sum = 0;

  template <class T>
  __device__ void add(const Vector<T>& x, std::int64_t count) {
    float next = highest;
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      if (i < count) next = greater(next, x[i]);
    const float base = next == -INFINITY ? 0.0f : next;  // avoids infinity - infinity
    sum *= expf(highest - base);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      if (i < count) sum += expf(x[i] - base);
    highest = next;
  }
};

/// Calls fn(column, count) for the thread's vectors of a row. The row's start may be unaligned: its
/// first vector ends at a multiple of 16 bytes.
template <class T, class Fn>
__device__ void for_vectors(const T* row, std::int64_t width, const Fn& fn) {
  const std::int64_t behind = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) %
                                                        sizeof(Vector<T>) / sizeof(T));
  const std::int64_t head = behind == 0 ? 0 : kVector<T> - behind;
  if (threadIdx.x == 0 && head > 0) fn(std::int64_t{0}, head < width ? head : width);
  for (std::int64_t c = head + threadIdx.x * kVector<T>; c < width; c += blockDim.x * kVector<T>)
    fn(c, width - c);
}

// One block per row.
template <class T>
__global__ void cross_entropy_rows(CrossEntropyArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = args.targets[n];
  T* const row = static_cast<T*>(args.logits) + n * args.vocabulary;
  const bool counts = target != args.ignored;
  if (!counts || target < 0 || target >= args.vocabulary) {
    const float value = counts ? NAN : 0.0f;
    for (std::int64_t v = threadIdx.x; v < args.vocabulary; v += blockDim.x) store(row + v, value);
    if (threadIdx.x == 0) args.losses[n] = value;
    return;
  }
  Softmax part;
  for_vectors(row, args.vocabulary,
              [&](std::int64_t c, std::int64_t count) { part.add(read(row + c, count), count); });
  const float highest = block_max(part.highest);
  const float sum = block_sum(part.sum == 0 ? 0.0f : part.sum * expf(part.highest - highest));
  if (threadIdx.x == 0) args.losses[n] = logf(sum) + highest - to_float(row[target]);
  if (!args.backward) return;
  __syncthreads();  // all threads have read the target's logit
  const float factor = args.gradient_scale / sum;
  for_vectors(row, args.vocabulary, [&](std::int64_t c, std::int64_t count) {
    Vector<T> x = read(row + c, count);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      x.set(i, expf(x[i] - highest) * factor - (c + i == target ? args.gradient_scale : 0.0f));
    write(row + c, x, count);
  });
}

}  // namespace

void cross_entropy(const CrossEntropyArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(cross_entropy_rows<T>, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
  });
}

}  // namespace hgt::cuda
