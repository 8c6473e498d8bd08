#include "hgtrain/parallel/context_split.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

void check_context_size(std::int64_t seq_length, std::int64_t size) {
  const std::int64_t chunks = 2 * size;
  if (size == 1 || seq_length % chunks == 0) return;
  const std::int64_t below = seq_length / chunks * chunks, above = below + chunks;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("parallelism.context_parallel_size = {} does not fit training.seq_length = {}: "
                  "each worker gets two of {} equal chunks of a sequence",
                  size, seq_length, chunks),
      below > 0 ? fmt::format("the nearest lengths that fit are {} and {}", below, above)
                : fmt::format("the nearest length that fits is {}", above));
}

SampleRows context_rows(std::int64_t seq_length, int size, int rank) {
  if (size == 1) return {seq_length};
  const std::int64_t chunk = seq_length / (2 * size);
  return {2 * chunk, 2, {rank * chunk, (2 * size - 1 - rank) * chunk}};
}

std::vector<OwnedRange> context_owners(std::int64_t batch, std::int64_t seq_length, int size,
                                       std::int64_t units) {
  const int chunks = 2 * size;
  const std::int64_t chunk = seq_length / chunks * units;
  std::vector<OwnedRange> out;
  for (std::int64_t i = 0; i < batch * chunks; ++i) {
    const int at = static_cast<int>(i % chunks);
    out.push_back({{i * chunk, (i + 1) * chunk}, std::min(at, chunks - 1 - at)});
  }
  return out;
}

}  // namespace hgt
