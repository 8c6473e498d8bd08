#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/cuda_queue.h"

#include "parts.h"

namespace hgt {

/// Memory through which a collective runs if its values lie elsewhere.
struct Staging {
  const CudaQueue& queue;  ///< copies
  std::byte* memory;
  std::size_t bytes;
};

/// Runs a reduce-scatter (if `reduces`, else an all-gather) of `values` through other memory. In
/// each turn, every rank's next elements are copied there, packed, and body(copies, parts) runs the
/// collective on them. When this returns, the results are in `values`.
template <class Body>
void stage_parts(const Staging& staging, std::span<std::byte> values, DType type,
                 std::span<const OwnedRange> parts, bool reduces, int rank, int ranks,
                 const Body& body) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  const std::int64_t limit = static_cast<std::int64_t>(staging.bytes) / size / ranks;
  const auto copy = [&](std::byte* to, std::int64_t to_element, const std::byte* from,
                        const Range& elements) {
    staging.queue.copy(to + to_element * size, from + elements.begin * size,
                       static_cast<std::size_t>(elements.size() * size));
  };
  PartsLeft left(parts, ranks);
  for (std::int64_t turns = left.turns(limit); turns > 0; --turns) {
    const std::vector<PackedPart> taken = left.take_packed(limit);
    std::vector<OwnedRange> packed;
    for (const auto& [elements, to] : taken) {
      packed.push_back(to);
      if (reduces || to.rank == rank)
        copy(staging.memory, to.elements.begin, values.data(), elements);
    }
    staging.queue.synchronize();
    body(std::span(staging.memory, packed.back().elements.end * size),
         std::span<const OwnedRange>(packed));
    for (const auto& [elements, from] : taken)
      if (reduces == (from.rank == rank))
        copy(values.data(), elements.begin, staging.memory, from.elements);
    staging.queue.synchronize();
  }
}

}  // namespace hgt
