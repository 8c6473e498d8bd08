#include "hgtrain/parallel/context_split.h"

#include <algorithm>

namespace hgt {

SampleRows context_rows(std::int64_t seq_length, int size, int rank) {
  if (size == 1) return {seq_length};  // it may be odd
  const std::int64_t chunk = seq_length / (2 * size);
  return {2 * chunk, 2, {rank * chunk, (2 * size - 1 - rank) * chunk}};
}

std::vector<OwnedRange> context_owners(std::int64_t batch, std::int64_t seq_length, int size,
                                       std::int64_t elements_per_token) {
  const int chunks = 2 * size;
  const std::int64_t chunk = seq_length / chunks * elements_per_token;
  std::vector<OwnedRange> out;
  for (std::int64_t i = 0; i < batch * chunks; ++i) {
    const int number = static_cast<int>(i % chunks);  // of the chunk in its sequence
    out.push_back({{i * chunk, (i + 1) * chunk}, std::min(number, chunks - 1 - number)});
  }
  return out;
}

}  // namespace hgt
