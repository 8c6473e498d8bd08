#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/config/data_config.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/optimizer_config.h"
#include "hgtrain/config/parallelism_config.h"
#include "hgtrain/config/precision_config.h"
#include "hgtrain/config/training_config.h"

namespace hgt {

/// Section `zero_optimization`.
struct ZeroConfig {
  std::int64_t stage = 0;
  // The largest numbers of elements: in one sum of gradients, in one gathering of parameters,
  // gathered ahead of use, and gathered at a time.
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::string offload_optimizer = "none";  ///< none, cpu
  std::string offload_param = "none";      ///< none, cpu
};

struct DistributedConfig {
  std::string backend = "auto";
  double timeout_minutes = 10;
  /// The network interface that workers use; "": the one with the address that ssh uses.
  std::string interface = {};
  bool push_data = false;  ///< hosts that lack data, weights or tokenizer get a copy
  std::int64_t timeout_ms() const { return static_cast<std::int64_t>(timeout_minutes * 60e3); }
};

struct HardwareConfig {
  std::string device = "auto";  ///< auto, cpu, cuda
  std::int64_t threads = 0;     ///< CPU threads per worker; 0 = the machine's cores shared evenly
  bool oversubscribe = false;   ///< workers may share a GPU
  bool cudnn = true;            ///< use cuDNN's attention if it supports the shape
  bool cudnn_deterministic = true;  ///< its backward adds in a fixed order
  bool cuda_graphs = true;          ///< a step's kernels are launched as CUDA graphs
  /// The memory of each GPU of the job, if workers do not share GPUs; 0: not known. This is not a
  /// key: it is set once the GPU is known. arch/gpu_scratch.h derives sizes from it.
  std::int64_t gpu_bytes = 0;
};

struct CheckpointConfig {
  std::int64_t save_interval = 0;  ///< steps; 0 = only at the end and on a signal
  std::int64_t keep_last_n = 0;    ///< 0 = keep all
  bool keep_best = false;          ///< save and keep the state with the best evaluation
  bool async_save = true;
  std::string copy_to;  ///< folder that gets a copy of each checkpoint; "": none
};

/// Section `activation_checkpointing`.
struct RecomputeConfig {
  std::string mode = "none";    ///< none, selective, full
  std::int64_t num_layers = 0;  ///< only the first num_layers layers; 0: all
};

/// The batch triple, resolved: train_batch_size = micro * accumulation * data-parallel size.
struct BatchConfig {
  std::int64_t train_batch_size = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t gradient_accumulation_steps = 0;
};

/// Section `elasticity`: which numbers of GPUs can share a batch, and how.
struct ElasticityConfig {
  bool enabled = false;
  std::int64_t max_train_batch_size = 0;             ///< 0: not given
  std::vector<std::int64_t> micro_batch_sizes = {};  ///< empty: not given
  std::int64_t min_gpus = 1, max_gpus = 10000;
  std::int64_t num_gpus_per_node = 1, model_parallel_size = 1;
  double version = 0.2;
  bool prefer_larger_batch = true;
  bool ignore_non_elastic_batch_info = false;
};

/// A whole job, resolved: all that a worker needs to train. config/load.h reads it from a file.
struct Config {
  BatchConfig batch;
  ElasticityConfig elasticity;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  PrecisionConfig precision;
  ZeroConfig zero;
  double gradient_clipping = 1.0;
  std::string communication_data_type = "fp32";  ///< or bf16, fp16; see gradient_sum_dtype
  std::int64_t steps_per_print = 1;              ///< steps between console lines; 0: none
  ModelConfig model;
  TokenizerConfig tokenizer;
  DataConfig data;
  TrainingConfig training;
  ParallelismConfig parallelism;
  DistributedConfig distributed;
  HardwareConfig hardware;
  CheckpointConfig checkpoint;
  RecomputeConfig recompute;

  /// The type in which data- and context-parallel workers send each other gradients.
  DType gradient_sum_dtype() const {
    if (communication_data_type == "bf16") return DType::kBF16;
    return communication_data_type == "fp16" ? DType::kF16 : DType::kF32;
  }
  bool deterministic_attention() const {
    return hardware.cudnn_deterministic || training.deterministic;
  }
  /// Whether matrix products on GPUs are timed (ProductTiming). While workers share a GPU, their
  /// times say nothing.
  bool times_products() const { return !training.deterministic && !hardware.oversubscribe; }
};

}  // namespace hgt
