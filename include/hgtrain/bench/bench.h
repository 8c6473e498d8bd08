#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

// How fast training is here, and what stands in the way. Each takes a resolved config with its
// model, batch, precision and threads, needs no files (tokens are drawn), and returns the object
// that `hgtrain bench --json` prints (src/cli/bench_*.md). Times come as {"median", "p10", "p90"}.
// All need a machine that does nothing else, and compare only what they measured in turns.

/// Training steps by the real trainer, against the weight products of the same step alone.
/// `process_start_ns` is when the process began, by now_ns(), for the time to the first step.
nlohmann::ordered_json bench_train(const Config& config, std::int64_t steps,
                                   std::int64_t process_start_ns);

/// The model's products, in fp32 and bf16, against the best rate of large square ones.
nlohmann::ordered_json bench_gemm(const Config& config, std::int64_t repeats);

/// Every op of a training step, each as the step calls it.
nlohmann::ordered_json bench_ops(const Config& config, std::int64_t steps);

/// Any of these for people.
std::string bench_text(const nlohmann::ordered_json& result);

}  // namespace hgt
