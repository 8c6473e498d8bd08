#pragma once

#include <optional>
#include <vector>

#include "hgtrain/arch/flat_spec.h"
#include "hgtrain/arch/model_spec.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/optim/optimizer.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

struct Config;

/// What a worker keeps of the model's state from step to step, on its device: flat buffers, laid
/// out by the parameter table. They hold the rank's blocks (all of the model's, or a pipeline
/// stage's) one after the other or, depending on ZeRO's stage (arch/flat_spec.h), only its shard.
/// They are fp32; for 16-bit training there is also a rounded copy of the parameters, which are
/// then called masters. If the config says so, parameters and the optimizer's state are bf16
/// instead. What a worker on a GPU offloads lies in page-locked host memory.
struct FlatBuffers {
  /// `plan` may be a temporary.
  FlatBuffers(const Config& config, const RankPlan& plan, Device device = Device::cpu());
  FlatState state() const;                       ///< what a checkpoint holds: this rank's slices
  Optimizer::Buffers optimizer_buffers() const;  ///< what the optimizer reads and updates
  FlatTensor parameter_values() const;
  FlatTensor gradient_values() const;  ///< fp32
  FlatTensor ema_values() const;       ///< fp32; empty if there is no average
  /// What the model computes with, in the compute dtype: the parameters themselves or their copy.
  FlatTensor weights() const;
  /// The buffer into which the optimizer writes these. If the optimizer is offloaded, they must
  /// then be copied to weights(), unless the weights are offloaded too.
  FlatTensor updated_weights() const;
  bool sends_weights() const { return sent_weights.data() != nullptr; }
  /// Draws the parameters of a fresh model (model/init.h), and starts the average from them. The
  /// optimizer's buffers must be in host memory.
  void initialize(const ParameterTable& table, std::uint64_t seed, ThreadPool& pool) const;
  /// Starts the average from the parameters; host memory only.
  void begin_ema(ThreadPool& pool) const;
  /// Rounds this rank's parameters to the updated weights. The stream is that of `home`.
  void round_weights(Stream stream) const;

  /// Whether the gradients are summed in host memory, and the optimizer runs there.
  bool is_offloaded() const { return home != device; }

  Device device;  ///< the device that computes
  Device home;    ///< where the optimizer's buffers are: the device or, if offloaded, the CPU
  Buffer parameters, gradients, rounded;
  Buffer sent_weights;  ///< weights on the device, if an offloaded optimizer updates others
  std::vector<Buffer> optimizer_state;  ///< named by optimizer_state()
  Buffer ema;                           ///< empty without training.ema_decay
  FlatSpec spec;
  DType compute_dtype;

 private:
  std::vector<Slice> all_, saved_, updated_;  ///< this rank's
  TensorRank tensor_;
};

/// Flat buffers in host memory, in which a run's state is prepared before it begins. If `home` is
/// the CPU, they are the worker's own buffers; otherwise a copy, which lives as long as this
/// object. The stream is the device's.
class HostBuffers {
 public:
  HostBuffers(const FlatBuffers& buffers, const Config& config, const RankPlan& plan,
              Stream stream);
  const FlatBuffers& get() const { return copy_ ? *copy_ : buffers_; }
  /// Copies to the device, and blocks until that is done. Without the optimizer's state, that of
  /// the device stays: in new buffers it is zero.
  void store(bool with_state) const;

 private:
  const FlatBuffers& buffers_;
  const Stream stream_;
  std::optional<FlatBuffers> copy_;
};

}  // namespace hgt
