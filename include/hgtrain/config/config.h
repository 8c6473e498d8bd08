#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/base/dtype.h"

namespace hgt {

/// One of HF's `rope_scaling` types; `type` is empty if there is none.
struct RopeScaling {
  std::string type;  ///< "", "linear", "dynamic", "llama3", "yarn"
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  std::int64_t original_max_position_embeddings = 0;
  double beta_fast = 32.0;  // yarn
  double beta_slow = 1.0;   // yarn
  std::optional<double> attention_factor;
  std::optional<double> mscale;          // yarn
  std::optional<double> mscale_all_dim;  // yarn
  bool truncate = true;                  // yarn
};

/// Section `model`: the architecture under HF `config.json` names, both old and new spellings
/// already folded into one. All sizes are those of the unsplit, unpadded model.
struct ModelConfig {
  std::string model_type = "gpt2";  ///< gpt2, llama, mistral, qwen2, qwen3
  std::int64_t vocab_size = 0;      ///< 0: taken from the tokenizer of the data
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< without GQA: num_attention_heads
  std::int64_t head_dim = 0;             ///< default: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 0;
  std::string hidden_act;  ///< gelu_new | gelu_pytorch_tanh | gelu | relu (gpt2), silu (llama)
  double norm_eps = 1e-5;  ///< layer_norm_epsilon or rms_norm_eps
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = true;
  bool attention_bias = false;      ///< bias of q, k, v (gpt2, qwen2: true)
  bool attention_out_bias = false;  ///< bias of the output projection (gpt2, llama, qwen3)
  bool mlp_bias = false;
  bool qk_norm = false;                     ///< RMSNorm on each head of q and k (qwen3)
  std::vector<std::int64_t> layer_windows;  ///< per layer: sliding window in tokens, 0 = full
  double initializer_range = 0.02;
  double embd_pdrop = 0.0;
  double resid_pdrop = 0.0;
  double attn_pdrop = 0.0;
  bool scale_attn_by_inverse_layer_idx = false;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
  std::string init;  ///< HF model folder to take architecture and weights from, or ""
};

struct TokenizerConfig {
  std::string type = "auto";  ///< auto (what the data's manifest says), byte, bpe
  std::string path;           ///< tokenizer.json or a folder with one
};

struct DataSource {
  std::string path;     ///< prefix of .bin/.idx, or one .bin file
  double weight = 0.0;  ///< share of the samples; all 0: in proportion to the files' sizes
};

struct DataConfig {
  std::vector<DataSource> train;
  std::vector<DataSource> valid;  ///< empty: split off `train` by `valid_fraction`
  double valid_fraction = 0.0;
  bool shuffle = true;
  std::int64_t seed = 1234;
  /// Attention does not cross the documents of a sample, and each starts at position 0.
  bool separate_documents = false;
  std::optional<std::int64_t> end_of_text;  ///< id that each document begins with
  std::string token_dtype = "auto";  ///< for files without a header: auto (uint16), uint16, uint32
};

/// Section `training.lr_schedule`; the formulas are in optim/lr_schedule.h.
struct LrScheduleConfig {
  std::string type = "constant";  ///< constant, cosine, wsd
  std::int64_t warmup_iters = 0;  ///< updates
  std::int64_t decay_iters = 0;   ///< updates; 0: cosine all after the warmup, wsd a tenth of all
  double min_lr = 0;              ///< rate at the end of the decay
  std::string decay_style = "linear";  ///< of wsd: linear, cosine, minus_sqrt
};

/// Section `training`. The length is given as train_iters, train_samples or num_epochs. Loading
/// turns samples into train_iters; set_epoch_samples does so with num_epochs, once the data is
/// known.
struct TrainingConfig {
  std::int64_t train_iters = 0;
  std::int64_t train_samples = 0;
  double num_epochs = 0;
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;
  std::int64_t eval_interval = 0;  ///< steps; 0 = never
  std::int64_t eval_iters = 10;    ///< batches of train_batch_size of one evaluation
  bool no_decay_norms_and_biases = false;
  /// Stop once the evaluation loss (without evaluations, the training loss) is this low.
  std::optional<double> target_loss;
  std::int64_t patience = 0;  ///< evaluations without improvement before stopping; 0 = off
  LrScheduleConfig lr_schedule;
  double ema_decay = 0;        ///< of the parameters' moving average; 0 = off
  bool deterministic = false;  ///< the same bits also for any number of threads
};

struct ParallelismConfig {
  std::int64_t data_parallel_size = 0;  ///< 0 = the rest of the world
  std::int64_t tensor_parallel_size = 1;
  bool sequence_parallel = false;  ///< tensor ranks split the rows of activations that all have
  std::int64_t pipeline_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  std::string pipeline_schedule = "1f1b";    ///< 1f1b, gpipe, interleaved
  std::int64_t virtual_pipeline_stages = 1;  ///< of each stage; above 1 only if interleaved
  /// Layers of each stage, or of each virtual stage in their order; empty = balanced.
  std::vector<std::int64_t> pipeline_layer_split = {};
};

struct DistributedConfig {
  std::string backend = "auto";
  double timeout_minutes = 10;
  std::int64_t timeout_ms() const { return static_cast<std::int64_t>(timeout_minutes * 60e3); }
};

struct HardwareConfig {
  std::string device = "auto";  ///< auto, cpu, cuda
  std::int64_t threads = 0;     ///< CPU threads per worker; 0 = the machine's cores shared evenly
  bool oversubscribe = false;   ///< workers may share a GPU
  bool cudnn = true;            ///< use cuDNN's attention if it supports the shape
  bool cuda_graphs = true;      ///< a step's kernels are launched as CUDA graphs
};

struct CheckpointConfig {
  std::int64_t save_interval = 0;  ///< steps; 0 = only at the end and on a signal
  std::int64_t keep_last_n = 0;    ///< 0 = keep all
  bool keep_best = false;          ///< save and keep the state with the best evaluation
  bool async_save = true;
};

/// Section `activation_checkpointing`.
struct RecomputeConfig {
  std::string mode = "none";    ///< none, selective, full
  std::int64_t num_layers = 0;  ///< recompute this many first layers; 0: all
};

struct OptimizerConfig {
  std::string type = "AdamW";  ///< AdamW, Adam, SGD, Adagrad, Lion, Lamb
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool bias_correction = true;
  bool adam_w_mode = true;
  // Parameters of SGD.
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  // Parameters of Lamb.
  double min_coeff = 0.01;
  double max_coeff = 10.0;
  bool eps_inside_sqrt = false;
};

/// Sections `fp16` and `bf16`: at most one is enabled.
struct PrecisionConfig {
  bool fp16 = false, bf16 = false;
  // Keys of fp16.
  double loss_scale = 0;  ///< 0: dynamic
  std::int64_t initial_scale_power = 16;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
  // Keys of bf16.
  bool bf16_parameters = false;  ///< without fp32 masters
  bool bf16_state = false;       ///< the optimizer's state, too

  /// The type of weights, activations and matrix products.
  DType compute_dtype() const { return fp16 ? DType::kF16 : bf16 ? DType::kBF16 : DType::kF32; }
  /// The type of the parameters that the optimizer updates.
  DType parameter_dtype() const { return bf16 && bf16_parameters ? DType::kBF16 : DType::kF32; }
  DType state_dtype() const { return bf16 && bf16_state ? DType::kBF16 : DType::kF32; }
};

/// Section `zero_optimization`.
struct ZeroConfig {
  std::int64_t stage = 0;
  // At most so many elements: in one sum of gradients, in one gathering of parameters, gathered
  // ahead of use, and gathered at a time.
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::string offload_optimizer = "none";  ///< none, cpu
  std::string offload_param = "none";      ///< none, cpu
};

/// Section `scheduler`, with DeepSpeed's names; type "" is a constant rate.
struct SchedulerConfig {
  std::string type;
  /// All parameters of the type, such as warmup_num_steps; flags are 0 or 1.
  std::map<std::string, double> numbers;
  std::string warmup_type = "log";
};

/// The batch triple, resolved: train_batch_size = micro * accumulation * data-parallel size.
struct BatchConfig {
  std::int64_t train_batch_size = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t gradient_accumulation_steps = 0;
};

/// A whole job, resolved: all that a worker needs to train. config/load.h reads it from a file.
struct Config {
  BatchConfig batch;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  PrecisionConfig precision;
  ZeroConfig zero;
  double gradient_clipping = 1.0;
  std::int64_t steps_per_print = 1;  ///< steps between console lines; 0: none
  ModelConfig model;
  TokenizerConfig tokenizer;
  DataConfig data;
  TrainingConfig training;
  ParallelismConfig parallelism;
  DistributedConfig distributed;
  HardwareConfig hardware;
  CheckpointConfig checkpoint;
  RecomputeConfig recompute;
};

}  // namespace hgt
