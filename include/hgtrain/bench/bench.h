#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/dtype.h"
#include "hgtrain/comm/groups.h"

namespace hgt {

class CudaModule;
class CudaQueue;
struct Config;

// How fast training is here, and what limits it. The first four take resolved configs with their
// model, batch, precision and threads, and need no files (tokens are drawn). Each returns the
// object that `hgtrain bench --json` prints (src/cli/bench_*.md). Times are {"median", "p10",
// "p90"}. All need an otherwise idle machine. Times that are compared were measured in alternation.

/// Times training steps by the real trainer, and the weight products of the same step alone.
/// `process_start_ns` is when the process began, by now_ns(), for the time to the first step.
nlohmann::ordered_json bench_train(const Config& config, std::int64_t steps,
                                   std::int64_t process_start_ns);

/// The groups of a config's layout, which outlive the bench; all ranks of the layout call it
/// together.
using ConnectLayout = std::function<Groups(const Config&)>;

/// Times training steps of several configs, which differ in their layout, alternately: every rank
/// calls it, on the CPU. A layout has as many workers as there are ranks, or one: rank 0. Rates are
/// compared with that of the first config, turn by turn.
nlohmann::ordered_json bench_layouts(std::span<const Config> configs, std::int64_t steps,
                                     Communicator& comm, const ConnectLayout& connect);

/// Times the model's products in fp32 and bf16, or on a GPU in all types that it multiplies
/// natively, and compares them with the best rate of large square ones.
nlohmann::ordered_json bench_gemm(const Config& config, std::int64_t repeats);

/// Times every op of a training step as the step calls it; on a GPU, the time it takes there.
nlohmann::ordered_json bench_ops(const Config& config, std::int64_t steps);

/// The CUDA kernels that a step with this compute type may run: what nvcc made of each for sm_80
/// and sm_90, and the occupancy that follows. Measures nothing and needs no GPU.
nlohmann::ordered_json plan_ops(DType compute_type);

struct CopyBench {
  std::int64_t bytes = 0;  ///< of one copy: more than the caches hold
  int threads = 1;         ///< the most to try: 1, 2, 4, ... up to this many
  std::int64_t repeats = 10;
};
/// Times copies of memory: on the CPU with several numbers of threads; with `module`, within its
/// first device, and from and to the host. Within one memory a byte counts twice, as read and as
/// written.
nlohmann::ordered_json bench_copy(const CopyBench& spec, const CudaModule* module = nullptr);

struct CommBench {
  std::string op = "all_reduce";              ///< or "reduce_scatter", "all_gather" or "broadcast"
  std::int64_t min_bytes = 0, max_bytes = 0;  ///< multiples of 4; sizes double from the first on
  std::int64_t repeats = 20;
};
/// Times one collective of fp32 by size; every rank calls it. The time is this rank's, after a
/// barrier. With `queue`, the memory is that GPU's, and many calls are queued at once and timed
/// together. Reduce-scatter and all-gather have an equal part for each rank; bytes are those of all
/// parts. algbw is bytes divided by time; busbw is what a link must carry for it, as nccl-tests
/// defines it: algbw * 2(n-1)/n for all_reduce, algbw * (n-1)/n for reduce_scatter and all_gather,
/// algbw for broadcast. `wrong` counts elements that are wrong on any rank.
nlohmann::ordered_json bench_comm(Communicator& comm, const CommBench& spec,
                                  const CudaQueue* queue = nullptr);

/// The result of any of these as text for people.
std::string bench_text(const nlohmann::ordered_json& result);

}  // namespace hgt
