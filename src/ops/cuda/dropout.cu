#include "dropout.h"
#include "kernel.h"

// Bytes moved: each operand once.

namespace hgt::cuda {
namespace {

// Each 64 elements of a sample share 16 counters, with one word of each for every 16 elements: a
// thread takes the same vector of all four groups of 16, so that it uses all words that it draws.
constexpr int kBlock = 64, kWords = 4, kCounters = 16;

/// The runs that the tensors' rows lie in; see SampleRows.
struct RunsArgs {
  DropoutAddArgs op;
  std::int64_t per_run, skipped;  ///< elements of a run; of those before the tensors' first
  std::int64_t first, count;      ///< runs
  std::int64_t blocks;            ///< of 64 elements, at most as many as a run lies in

  explicit RunsArgs(const DropoutAddArgs& args)
      : op(args),
        per_run(args.rows.run_length() * args.width),
        skipped(args.rows.first * args.width),
        first(skipped / per_run),
        count((skipped + args.count + per_run - 1) / per_run - first),
        blocks((per_run + kBlock - 1) / kBlock) {
    for (const std::int64_t begin : args.rows.begins)
      if (begin * args.width % kBlock != 0) blocks = (per_run + kBlock - 2) / kBlock + 1;
  }
};

/// Elements [begin, end) of the vector at `from`, and zeros in place of the others.
template <class T>
__device__ Vector<T> read(const T* from, std::int64_t begin, std::int64_t end) {
  if (begin <= 0) return hgt::cuda::read(from, end);
  Vector<T> out;
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) {
    out.set(i, 0);
    if (i >= begin && i < end) out.elements[i] = from[i];
  }
  return out;
}
template <class T>
__device__ void write(T* to, const Vector<T>& x, std::int64_t begin, std::int64_t end) {
  if (begin <= 0) return hgt::cuda::write(to, x, end);
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    if (i >= begin && i < end) to[i] = x.elements[i];
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) add_dropped(RunsArgs args) {
  const DropoutAddArgs& op = args.op;
  constexpr std::int64_t kParts = kCounters / kVector<T>;  // threads per 64 elements
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t run = args.first + at / kParts / args.blocks;
  if (run >= args.first + args.count) return;
  // Element e of the run's sample is element shift + e of the tensors, which have [begin, end).
  const std::int64_t first = op.rows.begin_of(run) * op.width;
  const std::int64_t shift = run * args.per_run - args.skipped - first;
  const std::int64_t begin = first > -shift ? first : -shift;
  const std::int64_t left = op.count - shift;
  const std::int64_t end = first + args.per_run < left ? first + args.per_run : left;
  const std::int64_t block = first / kBlock + at / kParts % args.blocks;
  const std::int64_t part = at % kParts * kVector<T>;
  if (block * kBlock >= end || (block + 1) * kBlock <= begin) return;
  Vector<T> x[kWords], branch[kWords];
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    const std::int64_t element = block * kBlock + word * kCounters + part, i = shift + element;
    branch[word] = read(static_cast<const T*>(op.branch) + i, begin - element, end - element);
    x[word] = read(op.x ? static_cast<const T*>(op.x) + i : nullptr, begin - element,
                   op.x ? end - element : 0);
  }
  const DropoutRow row(op.dropout, op.rows.sample_of(run));
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i) {
    const auto factors = row.factors(block * kCounters + part + i);
#pragma unroll
    for (int word = 0; word < kWords; ++word)
      x[word].set(i, branch[word][i] * factors[word] + x[word][i]);
  }
#pragma unroll
  for (int word = 0; word < kWords; ++word) {
    const std::int64_t element = block * kBlock + word * kCounters + part;
    write(static_cast<T*>(op.y) + (shift + element), x[word], begin - element, end - element);
  }
}

}  // namespace

void dropout_add(const DropoutAddArgs& args, CudaStreamState& stream) {
  if (args.count == 0) return;
  const RunsArgs runs(args);
  visit_element(args.type, [&]<class T>(T) {
    const std::int64_t threads = runs.count * runs.blocks * kCounters / kVector<T>;
    launch(add_dropped<T>, {{blocks_for(threads, kBlockThreads)}, {kBlockThreads}}, stream, runs);
  });
}

}  // namespace hgt::cuda
