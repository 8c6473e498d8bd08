#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/config/config.h"

#include "loading.h"

namespace hgt {

/// A batch that many numbers of workers can share.
struct ElasticBatch {
  std::int64_t train_batch_size = 0;
  std::vector<std::int64_t>
      workers;  ///< numbers of data-parallel workers, ascending; empty: no batch is allowed
};

/// Of the batches that DeepSpeed considers, chooses the one that the most numbers of workers can
/// share.
ElasticBatch elastic_batch(const ElasticityConfig& config);

/// The micro-batch for a number of workers that can share the batch.
std::int64_t elastic_micro_batch(const ElasticityConfig& config, std::int64_t train_batch_size,
                                 std::int64_t workers);

/// Sets the batch sizes for loading.data_workers or, if that is not known, for the smallest number
/// of workers that can share the batch. `group`: ranks that compute the same samples.
void resolve_elasticity(Loading& loading, bool knows_workers, std::int64_t group);

}  // namespace hgt
