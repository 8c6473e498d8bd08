#include <ptx.h>

#include "kernel.h"

// Bytes moved: the forward reads the logits once; with a gradient it reads them twice, the second
// time mostly from the L2 cache, and writes them once.

namespace hgt::cuda {
namespace {

/// As many as a block can have: a multiprocessor that is full of threads then has few rows, and
/// those of all multiprocessors fit into the L2 cache until they are read again.
constexpr unsigned kThreads = 1024;

constexpr float kLog2E = 1.44269504f;

/// e to the power of x - base, for x <= base.
__device__ inline float exp_above(float x, float base) {
  return exp2_or_zero(fmaf(x, kLog2E, -base * kLog2E));
}

/// A maximum, and the sum of exp(x - maximum) over the numbers added.
struct Softmax {
  float highest = -INFINITY, sum = 0;

  /// The highest number; 0 if all are minus infinity, which avoids infinity - infinity.
  __device__ float base() const { return highest == -INFINITY ? 0.0f : highest; }

  __device__ void raise(float next) {
    if (!(next > highest)) return;
    sum *= exp_above(highest, next);
    highest = next;
  }
  __device__ void add(float x) {
    raise(x);
    sum += exp_above(x, base());
  }
  template <class T>
  __device__ void add(const Vector<T>& x) {
    float next = x[0];
#pragma unroll
    for (int i = 1; i < kVector<T>; ++i) next = greater(next, x[i]);
    raise(next);
    const float from = base();
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i) sum += exp_above(x[i], from);
  }
};

/// Calls of_vector(column) for the thread's whole vectors of a row's first columns, and
/// of_element(column) for the elements before and after all of these. The row's start may be
/// unaligned.
template <class T, class OfVector, class OfElement>
__device__ void for_columns(const T* row, int columns, const OfVector& of_vector,
                            const OfElement& of_element) {
  const int behind =
      static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % sizeof(Vector<T>) / sizeof(T));
  const int head = behind == 0 ? 0 : kVector<T> - behind;  // perhaps more than there are
  const int whole = (columns - head) / kVector<T>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < whole; i += threads) of_vector(head + i * kVector<T>);
  const int rest = columns - whole * kVector<T>;
  if (thread < rest) of_element(thread < head ? thread : thread + whole * kVector<T>);
}

/// The softmax of a row's first columns, in all threads.
template <class T>
__device__ Softmax softmax_of(const T* row, int columns) {
  Softmax part;
  for_columns(
      row, columns, [&](int c) { part.add(load_vector(row + c)); },
      [&](int c) { part.add(to_float(row[c])); });
  const float highest = block_max(part.highest);
  const float sum = block_sum(part.sum == 0 ? 0.0f : part.sum * exp_above(part.highest, highest));
  return {highest, sum};
}

template <class T>
__device__ void fill(T* row, int columns, float value) {
  Vector<T> all;
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) all.set(i, value);
  for_columns(
      row, columns, [&](int c) { store_vector(row + c, all); },
      [&](int c) { store(row + c, value); });
}

/// If a row's target does not count, sets its loss and gradient to 0; if there is no such id, to
/// NaN. Returns whether it did either.
template <class T>
__device__ bool has_no_loss(std::int32_t target, std::int32_t ignored, std::int64_t vocabulary,
                            T* row, int width, float* loss) {
  if (target >= 0 && target < vocabulary) return false;
  const float value = target == ignored ? 0.0f : NAN;
  fill(row, width, value);
  if (threadIdx.x == 0) *loss = value;
  return true;
}

/// Turns a row's logits into their gradient, which is 0 in the padding. `target` is a column, or
/// none. All threads have read the target's logit, which is `logit` if there is one.
template <class T>
__device__ void to_gradient(T* row, int columns, int width, const Softmax& softmax,
                            std::int64_t target, float logit, float scale) {
  const float factor = scale / softmax.sum, highest = softmax.highest;
  for_columns(
      row, columns,
      [&](int c) {
        Vector<T> x = load_last(row + c);
#pragma unroll
        for (int i = 0; i < kVector<T>; ++i) x.set(i, exp_above(x[i], highest) * factor);
        store_last(row + c, x);
      },
      [&](int c) { store(row + c, exp_above(to_float(row[c]), highest) * factor); });
  fill(row + columns, width - columns, 0.0f);
  if (target < 0 || target >= columns) return;
  __syncthreads();  // the target's column is written
  if (threadIdx.x == 0) store(row + target, exp_above(logit, highest) * factor - scale);
}

// One block per row.
template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_rows(CrossEntropyArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = args.targets[n];
  T* const row = static_cast<T*>(args.logits) + n * args.width;
  const int width = static_cast<int>(args.width), columns = static_cast<int>(args.vocabulary);
  if (has_no_loss(target, args.ignored, args.vocabulary, row, width, args.losses + n)) return;
  const Softmax softmax = softmax_of(row, columns);
  const float logit = to_float(row[target]);
  if (threadIdx.x == 0) args.losses[n] = logf(softmax.sum) + softmax.highest - logit;
  if (!args.backward) return;
  __syncthreads();  // all threads have read the target's logit
  to_gradient(row, columns, width, softmax, target, logit, args.gradient_scale);
}

// One block per row.
template <class T>
__global__ void __launch_bounds__(kThreads) summarize_rows(CrossEntropyPartArgs args) {
  const std::int64_t n = blockIdx.x, target = args.targets[n] - args.first;
  const T* const row = static_cast<const T*>(args.logits) + n * args.width;
  const Softmax softmax = softmax_of(row, static_cast<int>(args.columns));
  if (threadIdx.x != 0) return;
  float* const out = args.parts + 3 * n;
  out[0] = softmax.highest;
  out[1] = softmax.sum;
  out[2] = target >= 0 && target < args.columns ? to_float(row[target]) : 0.0f;
}

// One block per row. Each thread sums the few parts of the ranks.
template <class T>
__global__ void __launch_bounds__(kThreads) finish_rows(CrossEntropyFinishArgs args) {
  const CrossEntropyPartArgs& part = args.part;
  const std::int64_t n = blockIdx.x;
  const std::int32_t target = part.targets[n];
  T* const row = static_cast<T*>(part.logits) + n * part.width;
  const int width = static_cast<int>(part.width), columns = static_cast<int>(part.columns);
  if (has_no_loss(target, part.ignored, part.vocabulary, row, width, args.losses + n)) return;
  Softmax softmax;
  float logit = 0;
  for (std::int64_t r = 0; r < args.ranks; ++r)
    softmax.highest = greater(softmax.highest, part.parts[3 * (r * part.rows + n)]);
  for (std::int64_t r = 0; r < args.ranks; ++r) {
    const float* const of_rank = part.parts + 3 * (r * part.rows + n);
    softmax.sum += of_rank[1] == 0 ? 0.0f : of_rank[1] * exp_above(of_rank[0], softmax.highest);
    logit += of_rank[2];
  }
  if (threadIdx.x == 0) args.losses[n] = logf(softmax.sum) + softmax.highest - logit;
  if (!args.backward) return;
  to_gradient(row, columns, width, softmax, target - part.first, logit, args.gradient_scale);
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
