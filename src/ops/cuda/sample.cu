#include "../sample_keys.h"
#include "kernel.h"

// One block, so that passes need not wait for other blocks. Bytes moved: the logits, once from
// memory; then 8 to 19 passes from the L2 cache, none at a temperature of 0.

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 1024;
constexpr int kDigitBits = 8;
constexpr unsigned kBins = 1 << kDigitBits;

/// Calls fn(key, logit) for the thread's tokens.
template <class T, class Fn>
__device__ void for_tokens(const SampleArgs& args, const Fn& fn) {
  const T* const logits = static_cast<const T*>(args.logits);
  for (std::int64_t i = threadIdx.x * kVector<T>; i < args.vocabulary; i += kThreads * kVector<T>) {
    const Vector<T> part = read(logits + i, args.vocabulary - i);
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j)
      if (i + j < args.vocabulary) fn(sort_key(part[j], i + j), part[j]);
  }
}

/// Sums of 64 bits in shared memory, whose atomics add 32 bits. Threads of a warp that add to one
/// word wait for each other, so each lane has its own.
struct Bins {
  static constexpr unsigned kCopies = 8;
  unsigned low[kBins][kCopies], high[kBins][kCopies];

  __device__ void clear() {
    for (unsigned i = threadIdx.x; i < kBins * kCopies; i += kThreads)
      low[i / kCopies][i % kCopies] = high[i / kCopies][i % kCopies] = 0;
  }
  __device__ void add(unsigned bin, std::uint64_t mass) {
    const unsigned copy = threadIdx.x % kCopies, added = static_cast<unsigned>(mass);
    const unsigned before = atomicAdd(&low[bin][copy], added);
    const unsigned carry = before > ~added ? 1 : 0;
    const unsigned rest = static_cast<unsigned>(mass >> 32) + carry;
    if (rest != 0) atomicAdd(&high[bin][copy], rest);
  }
  __device__ std::uint64_t sum(unsigned bin) const {
    std::uint64_t sum = 0;
    for (unsigned copy = 0; copy < kCopies; ++copy)
      sum += std::uint64_t{high[bin][copy]} << 32 | low[bin][copy];
    return sum;
  }
};

/// The masses of the tokens, in the order of their keys.
template <class T>
struct Distribution {
  const SampleArgs& args;
  float best;

  __device__ std::uint64_t mass(float logit) const {
    return mass_of((best - logit) / args.temperature);
  }
  __device__ std::uint64_t mass_at(std::uint64_t key) const {
    return mass(to_float(static_cast<const T*>(args.logits)[token_of(key)]));
  }
  /// The mass of the tokens before `end`.
  __device__ std::uint64_t mass_before(std::uint64_t end) const {
    std::uint64_t sum = 0;
    for_tokens<T>(args, [&](std::uint64_t key, float logit) {
      if (key < end) sum += mass(logit);
    });
    return block_sum(sum);
  }
  /// The key that `left` falls on, digit by digit, without the lowest bits if it says so; `left`
  /// becomes the offset within it. If `unit_mass`, all tokens have mass 1.
  __device__ std::uint64_t find(std::uint64_t& left, bool unit_mass = false,
                                int lowest_bit = 0) const {
    __shared__ Bins bins;
    __shared__ std::uint64_t sums[kBins], passed;
    __shared__ unsigned digit;
    std::uint64_t found = 0;
    for (int bit = kKeyBits - kDigitBits; bit >= lowest_bit; bit -= kDigitBits) {
      bins.clear();
      __syncthreads();
      for_tokens<T>(args, [&](std::uint64_t key, float logit) {
        if (key >> bit >> kDigitBits == found)
          bins.add((key >> bit) % kBins, unit_mass ? 1 : mass(logit));
      });
      __syncthreads();
      if (threadIdx.x < kBins) sums[threadIdx.x] = bins.sum(threadIdx.x);
      __syncthreads();
      if (threadIdx.x < kBins) {
        std::uint64_t before = 0;
        for (unsigned bin = 0; bin < threadIdx.x; ++bin) before += sums[bin];
        if (left - before < sums[threadIdx.x]) {  // wraps if `before` is more
          digit = threadIdx.x;
          passed = before;
        }
      }
      __syncthreads();
      found = found << kDigitBits | digit;
      left -= passed;
    }
    return found;
  }
};

template <class T>
__device__ std::int32_t drawn_token(const SampleArgs& args) {
  std::uint64_t inverted = 0;  // of the first key, because block_max finds the largest
  for_tokens<T>(args, [&](std::uint64_t key, float) { inverted = greater(inverted, ~key); });
  const std::uint64_t first = ~block_max(inverted);
  if (!is_finite_distribution(first)) return -1;
  if (args.temperature == 0) return token_of(first);

  const Distribution<T> distribution{args,
                                     to_float(static_cast<const T*>(args.logits)[token_of(first)])};
  std::uint64_t end = ~std::uint64_t{0};
  if (args.top_k > 0 && args.top_k < args.vocabulary) {
    std::uint64_t left = static_cast<std::uint64_t>(args.top_k) - 1;
    end = end_of_ties(distribution.find(left, true, kIdBits) << kIdBits);
  }
  std::uint64_t total = distribution.mass_before(end);
  if (args.top_p < 1) {
    const std::uint64_t last = min_mass(args.top_p, total) - 1;
    std::uint64_t left = last;
    const std::uint64_t key = distribution.find(left);
    total = last - left + distribution.mass_at(key);
  }
  std::uint64_t left = drawn_mass(args.uniform, total);
  return token_of(distribution.find(left));
}

template <class T>
__global__ void __launch_bounds__(kThreads) sample_token(SampleArgs args) {
  const std::int32_t token = drawn_token<T>(args);
  if (threadIdx.x == 0) *args.token = token;
}

}  // namespace

void sample(const SampleArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(sample_token<T>, {{1}, {kThreads}}, stream, args);
  });
}

}  // namespace hgt::cuda
