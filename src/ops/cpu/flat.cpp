#include <algorithm>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "kernels.h"

namespace hgt::cpu {
namespace {

void clear_part(float* x, std::int64_t count) {
  std::int64_t i = 0;
#ifdef __SSE2__
  // These bypass the caches, which would read each line before it is overwritten. Fewer may be in
  // the caches when they are read next.
  constexpr std::int64_t kCached = 1 << 20, kVector = 4, kAlignment = 16;
  if (count >= kCached) {
    for (; reinterpret_cast<std::uintptr_t>(x + i) % kAlignment != 0; ++i) x[i] = 0;
    for (; i + kVector <= count; i += kVector) _mm_stream_ps(x + i, _mm_setzero_ps());
    _mm_sfence();  // other threads see these stores in any order until then
  }
#endif
  std::fill(x + i, x + count, 0.0f);
}

}  // namespace

void clear(const Tensor& x, ThreadPool& pool) {
  float* const values = x.data<float>();
  pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    clear_part(values + begin, end - begin);
  });
}

void accumulate(const Tensor& from, const Tensor& to, bool first, ThreadPool& pool) {
  const float* __restrict const source = from.data<float>();
  float* __restrict const sums = to.data<float>();
  pool.parallel_for(from.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    if (first)
      std::copy(source + begin, source + end, sums + begin);
    else
      for (std::int64_t i = begin; i < end; ++i) sums[i] += source[i];
  });
}

void sum(const Tensor& x, const Tensor& out) {
  const float* const values = x.data<float>();
  double total = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) total += values[i];
  *out.data<double>() = total;
}

}  // namespace hgt::cpu
