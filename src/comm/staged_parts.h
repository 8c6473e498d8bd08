#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hgtrain/device/cuda_queue.h"

#include "parts.h"

namespace hgt {

/// Memory through which a collective runs whose values lie elsewhere.
struct Staging {
  const CudaQueue& queue;  ///< copies
  std::byte* memory;
  std::size_t bytes;
};

/// A reduce-scatter (else an all-gather) of `values` through other memory. In each turn every
/// rank's next elements are copied to it, packed, and body(copies, parts) is the collective of
/// them. When this returns, what it should change of `values` is there.
template <class T, class Body>
void stage_parts(const Staging& staging, std::span<T> values, std::span<const OwnedRange> parts,
                 bool reduces, int rank, int ranks, const Body& body) {
  const auto most = static_cast<std::int64_t>(staging.bytes / sizeof(T)) / ranks;
  T* const copies = reinterpret_cast<T*>(staging.memory);
  PartsLeft left(parts, ranks);
  for (std::int64_t turns = left.turns(most); turns > 0; --turns) {
    const std::vector<PackedPart> taken = left.take_packed(most);
    std::vector<OwnedRange> packed;
    for (const auto& [elements, to] : taken) {
      packed.push_back(to);
      if (reduces || to.rank == rank)
        staging.queue.copy(copies + to.elements.begin, values.data() + elements.begin,
                           static_cast<std::size_t>(elements.size()) * sizeof(T));
    }
    staging.queue.synchronize();
    body(std::span<T>(copies, packed.back().elements.end), std::span<const OwnedRange>(packed));
    for (const auto& [elements, from] : taken)
      if (reduces == (from.rank == rank))
        staging.queue.copy(values.data() + elements.begin, copies + from.elements.begin,
                           static_cast<std::size_t>(elements.size()) * sizeof(T));
    staging.queue.synchronize();
  }
}

}  // namespace hgt
