#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

/// For sources of the CUDA module only.
struct ReceivedParts {
  void* values;          ///< this rank's values, its own parts included
  const void* received;  ///< see CudaCommTable::exchange_parts
  DType type;            ///< bf16 or fp16
  int rank, ranks;
};

/// How many elements the rank's parts have.
inline std::int64_t own_elements(std::span<const OwnedRange> parts, int rank) {
  std::int64_t sum = 0;
  for (const OwnedRange& part : parts)
    if (part.rank == rank) sum += part.elements.size();
  return sum;
}

/// Queues: this rank's parts become the sums of all ranks' values, added in fp32 in the order of
/// the ranks and rounded once.
void add_received(const ReceivedParts& of, std::span<const OwnedRange> parts,
                  CudaStreamState& stream);

}  // namespace hgt
