#include <algorithm>

#include "hgtrain/base/element.h"
#include "hgtrain/base/philox.h"
#include "hgtrain/base/philox_lanes.h"

#include "kernels.h"
#include "rows.h"

namespace hgt::cpu {
namespace {

// 64 elements share 16 counters: element e takes word (e / 16) % 4 of counter e / 64 * 16 + e % 16.
constexpr std::int64_t kBlock = kPhiloxWords;

/// Handles `count` elements of flat tensors, which lie in sample `sample` and start there at
/// `element`.
/// x may be null.
template <class T>
void add_dropped(const T* x, const T* branch, const Dropout& options, std::int64_t sample,
                 std::int64_t element, std::int64_t count, T* y) {
  constexpr std::int64_t kSpan = 1024;
  float factors[kSpan];
  for (std::int64_t at = 0; at < count; at += kSpan) {
    const std::int64_t n = std::min(kSpan, count - at);
    dropout_factors(options, sample, element + at, n, factors);
    if (x) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[at + i] = branch[at + i] * factors[i] + x[at + i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[at + i] = branch[at + i] * factors[i];
    }
  }
}

}  // namespace

void dropout_factors(const Dropout& options, std::int64_t sample, std::int64_t first,
                     std::int64_t count, float* factors) {
  const std::uint64_t key =
      philox_key(options.seed, static_cast<std::uint64_t>(options.samples->step),
                 static_cast<std::uint64_t>(options.samples->first_sample + sample));
  const float kept = 1.0f / (1.0f - options.probability);
  std::uint32_t words[kBlock];
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t block = at / kBlock, offset = at % kBlock;
    const std::int64_t n = std::min(kBlock - offset, first + count - at);
    philox_lanes(key, options.site, static_cast<std::uint64_t>(block * kPhiloxLanes), words);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      factors[at - first + i] = uniform01(words[offset + i]) >= options.probability ? kept : 0.0f;
    at += n;
  }
}

void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 ThreadPool& pool) {
  const SampleRows& rows = options.rows;
  const std::int64_t width = branch.numel() / std::max<std::int64_t>(branch.size(0), 1);
  const std::int64_t per_run = rows.run_length() * width, skipped = rows.first * width;
  visit_element(branch.dtype(), [&]<class T>(T) {
    const T* const xs = x ? x.data<T>() : nullptr;
    const T* const branches = branch.data<T>();
    T* const ys = y.data<T>();
    pool.parallel_for(branch.numel(), [&](std::int64_t begin, std::int64_t end, int) {
      if (options.probability == 0 && xs)
        return add(xs + begin, branches + begin, end - begin, ys + begin);
      if (options.probability == 0)
        return void(std::copy(branches + begin, branches + end, ys + begin));
      for (std::int64_t i = begin; i < end;) {
        const std::int64_t run = (skipped + i) / per_run, at = (skipped + i) % per_run;
        const std::int64_t count = std::min(per_run - at, end - i);
        add_dropped(xs ? xs + i : nullptr, branches + i, options, rows.sample_of(run),
                    rows.begin_of(run) * width + at, count, ys + i);
        i += count;
      }
    });
  });
}

}  // namespace hgt::cpu
