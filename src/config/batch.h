#pragma once

#include <optional>
#include <string>

#include "hgtrain/config/config.h"

namespace hgt {

/// DeepSpeed's rule: what is 0 of the triple follows from the rest, divisions rounding down.
/// All three stay as they are where they are given; without total and micro-batch nothing follows.
/// Error(kConfig) where the product does not fit.
BatchConfig complete_batch(BatchConfig batch, std::int64_t workers);

struct BatchProblem {
  std::string message;
  std::string hint;
};

/// What is wrong with the triple that `asked` is completed to. `derivation` says where the number
/// of workers comes from, "" if that is plain.
std::optional<BatchProblem> check_batch(const BatchConfig& asked, std::int64_t workers,
                                        const std::string& derivation);

}  // namespace hgt
