#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/base/sample_rows.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

// Context ranks share each sequence: it is cut into 2 `size` equal chunks, and rank r has chunks r
// and 2 size - 1 - r, so that its queries see about as many keys as those of any other rank.
// Source: Dubey et al. 2024, arXiv:2407.21783, section 3.3.2.

/// The tokens that a rank has of each sequence.
SampleRows context_rows(std::int64_t seq_length, int size, int rank);

/// Which rank owns which part of a buffer with `elements_per_token` for each token of `batch`
/// sequences, counted in elements.
std::vector<OwnedRange> context_owners(std::int64_t batch, std::int64_t seq_length, int size,
                                       std::int64_t elements_per_token);

}  // namespace hgt
