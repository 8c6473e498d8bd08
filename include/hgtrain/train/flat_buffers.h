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
/// out by the parameter table, of the rank's blocks (all, unless it is a pipeline's stage), one
/// after the other, or, as ZeRO's stage says (arch/flat_spec.h), of its shard. They are fp32;
/// for 16-bit training there is also a rounded copy of the parameters, which are then called
/// masters. Or, if the config says so, parameters and the optimizer's state are bf16. What a worker
/// on a GPU offloads lies in page-locked host memory.
struct FlatBuffers {
  /// `plan` may be a temporary.
  FlatBuffers(const Config& config, const RankPlan& plan, Device device = Device::cpu());
  FlatState state() const;                       ///< what a checkpoint holds, as this rank's slices
  Optimizer::Buffers optimizer_buffers() const;  ///< what the optimizer reads and updates
  FlatTensor parameter_values() const;
  FlatTensor gradient_values() const;  ///< fp32
  FlatTensor ema_values() const;       ///< fp32; empty if there is no average
  /// What the model computes with, in the compute dtype: the parameters themselves or their copy.
  FlatTensor weights() const;
  /// The same as the optimizer leaves them. If it is offloaded, they must then be sent to
  /// weights(), unless these are offloaded too.
  FlatTensor updated_weights() const;
  bool sends_weights() const { return sent_weights.data() != nullptr; }
  /// Draws the parameters of a fresh model (model/init.h), from which the average starts too. The
  /// optimizer's buffers must be in host memory.
  void initialize(const ParameterTable& table, std::uint64_t seed, ThreadPool& pool) const;
  void begin_ema(ThreadPool& pool) const;  ///< from the parameters; only if in host memory
  /// Rounds this rank's parameters to the updated weights. The stream is that of `home`.
  void round_weights(Stream stream) const;

  /// Whether the gradients are summed in host memory, and the optimizer runs there.
  bool is_offloaded() const { return home != device; }

  Device device;  ///< that computes
  Device home;    ///< where the optimizer's buffers are: the device or, if offloaded, the CPU
  Buffer parameters, gradients, rounded;
  Buffer sent_weights;                  ///< on the device, if it has no others
  std::vector<Buffer> optimizer_state;  ///< named by optimizer_state()
  Buffer ema;                           ///< empty without training.ema_decay
  FlatSpec spec;
  DType compute_dtype;

 private:
  std::vector<Slice> all_, saved_, updated_;  ///< this rank's
  TensorRank tensor_;
};

/// Flat buffers in host memory, in which a run's state is made before it begins. If their home is
/// the CPU, they are the worker's own; else they are a copy, which lives as long as this object.
/// The stream is the device's.
class HostBuffers {
 public:
  HostBuffers(const FlatBuffers& buffers, const Config& config, const RankPlan& plan,
              Stream stream);
  const FlatBuffers& get() const { return copy_ ? *copy_ : buffers_; }
  void store() const;  ///< copies to the device; blocks until done

 private:
  const FlatBuffers& buffers_;
  const Stream stream_;
  std::optional<FlatBuffers> copy_;
};

}  // namespace hgt
