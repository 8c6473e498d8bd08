#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

/// A range of the flat gradient buffer that is reduced in one collective. It is complete once the
/// backward of `last_block`, its lowest block, has run for the rank's last micro-batch.
struct Bucket {
  Range elements;
  int last_block = 0;
};

/// Cuts the flat buffer, whose blocks are given in ascending order without gaps, into buckets, in
/// the order in which they become ready. A bucket has whole blocks and at most `bucket_elements`,
/// or a single block.
std::vector<Bucket> make_buckets(std::span<const Range> blocks, std::int64_t bucket_elements);

/// One thing for a rank to do. `block` and `micro` (counted within the rank), or `bucket`, say what
/// it applies to.
struct Action {
  enum class Kind {
    kForward,   ///< block, micro
    kBackward,  ///< block, micro
    kReduce,    ///< bucket: start its sum over the data-parallel ranks
    kUpdate,    ///< wait for the sums, then clip and step the optimizer
  };
  Kind kind = Kind::kUpdate;
  int block = 0;
  int micro = 0;
  int bucket = 0;
  bool operator==(const Action&) const = default;
};

/// A step of plain data parallelism: for each micro-batch all blocks forward, then backward; a
/// bucket is reduced as soon as the last micro-batch completes it. Every rank reduces the same
/// buckets in the same order, even if it has no micro-batch.
std::vector<Action> data_parallel_schedule(int blocks, std::int64_t micro_batches,
                                           std::span<const Bucket> buckets);

}  // namespace hgt
