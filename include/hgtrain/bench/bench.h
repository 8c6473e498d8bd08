#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

class Communicator;
class CudaModule;
class CudaQueue;

// How fast training is here, and what stands in the way. The first three take a resolved config
// with its model, batch, precision and threads, need no files (tokens are drawn). Each returns the
// object that `hgtrain bench --json` prints (src/cli/bench_*.md). Times come as {"median", "p10",
// "p90"}. All need a machine that does nothing else, and compare only what they measured in turns.

/// Training steps by the real trainer, against the weight products of the same step alone.
/// `process_start_ns` is when the process began, by now_ns(), for the time to the first step.
nlohmann::ordered_json bench_train(const Config& config, std::int64_t steps,
                                   std::int64_t process_start_ns);

/// The model's products, in fp32 and bf16, or all types that a GPU multiplies by itself, against
/// the best rate of large square ones.
nlohmann::ordered_json bench_gemm(const Config& config, std::int64_t repeats);

/// Every op of a training step, each as the step calls it; on a GPU the time that it takes there.
nlohmann::ordered_json bench_ops(const Config& config, std::int64_t steps);

struct CopyBench {
  std::int64_t bytes = 0;  ///< of one copy: more than the caches hold
  int threads = 1;         ///< at most: 1, 2, 4, ... up to this many are tried
  std::int64_t repeats = 10;
};
/// How fast memory is copied: on the CPU by threads; of the module's first device within it, and
/// from and to the host. Within one memory a byte counts twice, as read and as written.
nlohmann::ordered_json bench_copy(const CopyBench& spec, const CudaModule* module = nullptr);

struct CommBench {
  std::string op = "all_reduce";              ///< or "broadcast"
  std::int64_t min_bytes = 0, max_bytes = 0;  ///< multiples of 4; sizes double from the first on
  std::int64_t repeats = 20;
};
/// One collective of fp32 by size; every rank calls it. Time is this rank's, after a barrier; of
/// memory of the queue's GPU, where there is one, that of many calls which are queued at once.
/// algbw is bytes by time; busbw what a link must carry for it, as nccl-tests defines it: algbw *
/// 2(n-1)/n for all_reduce, algbw for broadcast. `wrong` counts elements that came out wrong on any
/// rank.
nlohmann::ordered_json bench_comm(Communicator& comm, const CommBench& spec,
                                  const CudaQueue* queue = nullptr);

/// Any of these for people.
std::string bench_text(const nlohmann::ordered_json& result);

}  // namespace hgt
