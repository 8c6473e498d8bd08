#include "hgtrain/arch/gpu_scratch.h"

#include <algorithm>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"

#include "times.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{2}
                                   << 30;  ///< of logits, and also of attention's parts
constexpr std::int64_t kSmallestLogits = std::int64_t{16} << 20;  ///< elements

/// GPU memory that is left to the driver and, with a desktop's in mind, to other programs.
std::int64_t reserved_bytes(std::int64_t gpu_bytes) {
  constexpr std::int64_t kOtherPrograms = std::int64_t{384} << 20;
  return kGpuContextBytes + kOtherPrograms + gpu_bytes / 64;
}

/// The rows of the fewest equal chunks that have about `elements` logits each.
std::int64_t rows_of_chunks(std::int64_t rows, std::int64_t vocabulary, std::int64_t elements) {
  constexpr std::int64_t kUnit = 128;  // of a kernel's tile
  const std::int64_t max_rows = std::max(elements / vocabulary, kUnit);
  const std::int64_t chunks = (rows + max_rows - 1) / max_rows;
  return std::min(round_up((rows + chunks - 1) / chunks, kUnit), rows);
}

/// The GPU memory that the largest stage leaves free with the smallest sizes; 0 if it leaves none,
/// or if the GPU is not known.
std::int64_t spare_bytes(Config config) {
  const std::int64_t all = config.hardware.gpu_bytes;
  if (all == 0) return 0;
  config.hardware.gpu_bytes = 0;
  const std::int64_t taken = worker_bytes(config);
  return std::max<std::int64_t>(all - reserved_bytes(all) - taken, 0);
}

}  // namespace

GpuScratch gpu_scratch(const Config& config) {
  const ParallelismConfig& split = config.parallelism;
  const std::int64_t rows = times(config.batch.micro_batch_size,
                                  config.training.seq_length / split.context_parallel_size);
  const std::int64_t spare = spare_bytes(config);
  const auto element = static_cast<std::int64_t>(size_of(config.precision.compute_dtype()));
  const std::int64_t logits = std::max(std::min(spare / 2, kMaxBytes) / element, kSmallestLogits);
  return {rows_of_chunks(rows, rank_model(config).vocab_size, logits),
          std::max(std::min(spare / 4, kMaxBytes), cuda::kAttentionPartBytes)};
}

}  // namespace hgt
