#pragma once

#include <optional>
#include <string>

#include "hgtrain/config/config.h"

namespace hgt {

/// DeepSpeed's rule: a size that is 0 follows from the others; divisions round down. If all three
/// are given, nothing changes; without total and micro-batch nothing follows. Error(kConfig) if the
/// product overflows.
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
