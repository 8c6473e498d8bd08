#pragma once

#include <optional>
#include <string>

#include "hgtrain/config/config.h"

namespace hgt {

/// DeepSpeed's rule: a size that is 0 follows from the others; divisions round down. If all three
/// are given, nothing changes; if total and micro-batch are both missing, nothing can be derived.
/// Error(kConfig) if the product overflows.
BatchConfig complete_batch(BatchConfig batch, std::int64_t workers);

struct BatchProblem {
  const char* key;  ///< the key at fault
  std::string message;
  std::string hint;
};

/// What is wrong with the batch that complete_batch() makes of `asked`, if anything. `derivation`
/// says how the number of data-parallel workers follows from the layout; "" if all workers are
/// data-parallel. If the number is not known, `workers` is one that the batch allows, or 1.
std::optional<BatchProblem> check_batch(const BatchConfig& asked, std::int64_t workers,
                                        const std::string& derivation, bool knows_workers = true);

}  // namespace hgt
