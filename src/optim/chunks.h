#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/element.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The unit of element-wise work: a whole number of vectors, so that every element is computed by
/// the same instructions, whichever thread has the chunk.
inline constexpr std::int64_t kChunk = 1 << 14;

/// Calls fn(Range) for every chunk of `range` on the pool's threads.
template <class Fn>
void for_chunks(ThreadPool& pool, Range range, const Fn& fn) {
  pool.parallel_for((range.size() + kChunk - 1) / kChunk,
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                        const std::int64_t start = range.begin + chunk * kChunk;
                        fn(Range{start, std::min(start + kChunk, range.end)});
                      }
                    });
}

/// The table's elements in ranges that decay or do not.
struct DecayRange {
  Range elements;
  bool decays = true;
};
inline std::vector<DecayRange> decay_ranges(const ParameterTable& table) {
  std::vector<DecayRange> out;
  for (const Parameter& p : table.parameters) {
    if (!out.empty() && out.back().decays == p.decay) continue;
    if (!out.empty()) out.back().elements.end = p.offset;
    out.push_back({{p.offset, table.total}, p.decay});
  }
  return out;
}

/// out[i] = values[i] for i in the range, rounded to out's type. Does nothing if out is no tensor.
inline void round_chunk(const Tensor& values, Range range, const Tensor& out) {
  if (!out) return;
  visit_element(values.dtype(), [&]<class From>(From) {
    const From* const from = values.data<From>();
    visit_element(out.dtype(), [&]<class To>(To) {
      To* const to = out.data<To>();
      for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
}

}  // namespace hgt
