#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hgtrain/base/dtype.h"

namespace hgt {

struct Config;
struct OptimizerConfig;

/// A flat buffer that a rank keeps from step to step.
struct FlatBufferSpec {
  std::string name;
  DType dtype = DType::kF32;
  bool sharded = false;    ///< the rank's shard alone, not all elements of its blocks
  bool offloaded = false;  ///< in host memory, while a GPU computes
};

/// What a rank keeps of the model's state. Workers allocate by it, and the memory plan counts by
/// it.
struct FlatSpec {
  /// What the optimizer updates: the weights that the model computes with or, if these are a
  /// rounded or a sent copy, the masters.
  FlatBufferSpec parameters;
  FlatBufferSpec gradients;               ///< the gradients that the optimizer reads
  std::vector<FlatBufferSpec> state;      ///< named by optimizer_state()
  std::optional<FlatBufferSpec> ema;      ///< with training.ema_decay
  std::optional<FlatBufferSpec> rounded;  ///< a copy of the parameters in the compute dtype
  std::optional<FlatBufferSpec>
      sent;  ///< the GPU's copy of the weights, if the optimizer is offloaded
};

/// `zero_stage` is the rank plan's. Workers on the CPU (`on_gpu` false) offload nothing.
FlatSpec flat_spec(const Config& config, int zero_stage, bool on_gpu);

/// Names of the flat buffers that an optimizer keeps from update to update, in the order in which
/// Optimizer takes them. They are those of torch and DeepSpeed, and checkpoints use them too.
///
///   AdamW, Adam, Lamb       exp_avg, exp_avg_sq
///   Lion                    exp_avg
///   SGD with momentum       momentum_buffer
///   Adagrad                 sum
///
/// Error(kConfig) if the type is not built.
std::vector<std::string> optimizer_state(const OptimizerConfig& config);

}  // namespace hgt
