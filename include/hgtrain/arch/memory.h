#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/dtype.h"

namespace hgt {

struct Config;

/// A named allocation of a worker and its size in bytes: a line of `--dry_run`'s memory table.
struct Allocation {
  std::string name;
  std::int64_t bytes = 0;
};

/// Everything a worker allocates for training; it depends on config and layout alone. These are the
/// parameters (16-bit weights with their fp32 masters, or the weights alone), gradients, optimizer
/// state, the moving average of the parameters, activations, the scratch memory of the CPU threads,
/// the copy from which an asynchronous save writes (of all but 16-bit weights and gradients; the
/// worker's part), the buffers of checkpoints, and the memory that workers of a machine share.
/// If the device is cuda, the table lists what lies on the GPU: all of this except the last three,
/// and also the GPU's scratch memory and the memory of CUDA's libraries. The driver's context and
/// what is offloaded are not in it.
///
/// The table is that of a rank of the pipeline stage `stage` or, without `stage`, of the stage that
/// needs most. If shards are unequal, it is that of the rank with the largest one.
std::vector<Allocation> memory_table(const Config& config, int threads);
std::vector<Allocation> memory_table(const Config& config, int threads, int stage);

/// What a worker of a pipeline stage keeps in page-locked host memory, in rows like those of
/// memory_table(). Empty on the CPU and without offloading.
std::vector<Allocation> offloaded_memory(const Config& config, int stage = 0);

/// Error(kConfig) if a model is too wide for the GPU kernels: if its rows are wider than
/// cuda::kMaxRowBytes, or its heads than cuda::kMaxHeadDim (base/kernel_sizes.h).
void require_gpu_widths(const ModelConfig& model, DType dtype);

/// The memory of the pieces in which a worker reads and writes checkpoints.
inline constexpr std::int64_t kCheckpointBufferBytes = 8 << 20;
/// The most memory through which tensor ranks exchange what they have of a tensor that they save.
inline constexpr std::int64_t kCheckpointExchangeBytes = 8 << 20;

/// The size of a checkpoint's tensors: parameters, optimizer state and moving average of the model.
std::int64_t checkpoint_bytes(const Config& config);

/// What a worker copies for a save, in bytes: its part of parameters, optimizer state and moving
/// average. For a GPU this is host memory, and 0 if they are offloaded and the save is not
/// asynchronous.
std::int64_t save_bytes(const Config& config);

/// The sum of a table, in bytes.
std::int64_t total_bytes(const std::vector<Allocation>& table);
/// That of memory_table(), with the config's threads.
std::int64_t worker_bytes(const Config& config);

}  // namespace hgt
