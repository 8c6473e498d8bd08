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

/// The softmax of a row's first columns, in all threads.
template <class T>
__device__ Softmax softmax_of(const T* row, std::int64_t columns) {
  Softmax part;
  for_vectors(row, columns,
              [&](std::int64_t c, std::int64_t count) { part.add(read(row + c, count), count); });
  const float highest = block_max(part.highest);
  const float sum = block_sum(part.sum == 0 ? 0.0f : part.sum * expf(part.highest - highest));
  return {highest, sum};
}

/// If a row's target does not count, its loss and gradient are 0; if there is no such id, NaN.
/// Returns whether one of these is so.
template <class T>
__device__ bool has_no_loss(std::int32_t target, std::int32_t ignored, std::int64_t vocabulary,
                            T* row, std::int64_t width, float* loss) {
  if (target >= 0 && target < vocabulary) return false;
  const float value = target == ignored ? 0.0f : NAN;
  for (std::int64_t v = threadIdx.x; v < width; v += blockDim.x) store(row + v, value);
  if (threadIdx.x == 0) *loss = value;
  return true;
}

/// Turns a row's logits into their gradient; `target` is a column, or none.
template <class T>
__device__ void to_gradient(T* row, std::int64_t columns, const Softmax& softmax,
                            std::int64_t target, float scale) {
  const float factor = scale / softmax.sum;
  for_vectors(row, columns, [&](std::int64_t c, std::int64_t count) {
    Vector<T> x = read(row + c, count);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      x.set(i, expf(x[i] - softmax.highest) * factor - (c + i == target ? scale : 0.0f));
    write(row + c, x, count);
  });
}

// One block per row.
template <class T>
__global__ void cross_entropy_rows(CrossEntropyArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = args.targets[n];
  T* const row = static_cast<T*>(args.logits) + n * args.vocabulary;
  if (has_no_loss(target, args.ignored, args.vocabulary, row, args.vocabulary, args.losses + n))
    return;
  const Softmax softmax = softmax_of(row, args.vocabulary);
  if (threadIdx.x == 0)
    args.losses[n] = logf(softmax.sum) + softmax.highest - to_float(row[target]);
  if (!args.backward) return;
  __syncthreads();  // all threads have read the target's logit
  to_gradient(row, args.vocabulary, softmax, target, args.gradient_scale);
}

// One block per row.
template <class T>
__global__ void summarize_rows(CrossEntropyPartArgs args) {
  const std::int64_t n = blockIdx.x, target = args.targets[n] - args.first;
  const T* const row = static_cast<const T*>(args.logits) + n * args.width;
  const Softmax softmax = softmax_of(row, args.columns);
  if (threadIdx.x != 0) return;
  float* const out = args.parts + 3 * n;
  out[0] = softmax.highest;
  out[1] = softmax.sum;
  out[2] = target >= 0 && target < args.columns ? to_float(row[target]) : 0.0f;
}

// One block per row. Each thread sums the few parts of the ranks.
template <class T>
__global__ void finish_rows(CrossEntropyFinishArgs args) {
  const CrossEntropyPartArgs& part = args.part;
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = part.targets[n];
  T* const row = static_cast<T*>(part.logits) + n * part.width;
  if (has_no_loss(target, part.ignored, part.vocabulary, row, part.width, args.losses + n)) return;
  Softmax softmax;
  float logit = 0;
  for (std::int64_t r = 0; r < args.ranks; ++r)
    softmax.highest = greater(softmax.highest, part.parts[3 * (r * part.rows + n)]);
  for (std::int64_t r = 0; r < args.ranks; ++r) {
    const float* const of_rank = part.parts + 3 * (r * part.rows + n);
    softmax.sum += of_rank[1] == 0 ? 0.0f : of_rank[1] * expf(of_rank[0] - softmax.highest);
    logit += of_rank[2];
  }
  if (threadIdx.x == 0) args.losses[n] = logf(softmax.sum) + softmax.highest - logit;
  if (!args.backward) return;
  to_gradient(row, part.columns, softmax, target - part.first, args.gradient_scale);
  for (std::int64_t v = part.columns + threadIdx.x; v < part.width; v += blockDim.x)
    store(row + v, 0.0f);
}

}  // namespace

void cross_entropy(const CrossEntropyArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(cross_entropy_rows<T>, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
  });
}

void cross_entropy_part(const CrossEntropyPartArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(summarize_rows<T>, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
  });
}

void cross_entropy_finish(const CrossEntropyFinishArgs& args, CudaStreamState& stream) {
  visit_element(args.part.type, [&]<class T>(T) {
    launch(finish_rows<T>, {{blocks_for(args.part.rows, 1)}, {kThreads}}, stream, args);
  });
}

}  // namespace hgt::cuda
