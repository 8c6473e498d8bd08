#pragma once

#include <algorithm>
#include <cstdint>

#include "hgtrain/device/thread_pool.h"
#include "hgtrain/parallel/range.h"

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

}  // namespace hgt
