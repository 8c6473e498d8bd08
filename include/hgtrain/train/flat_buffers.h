#pragma once

#include <optional>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/optim/optimizer.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The flat buffers of a worker on its device, laid out by the parameter table; fp32, and in 16-bit
/// training a rounded copy of the parameters, which are then called masters; or, as the config
/// says, parameters and the optimizer's state of bf16.
struct FlatBuffers {
  FlatBuffers(const ParameterTable& table, const Config& config, Device device = Device::cpu());
  FlatState state() const;             ///< what a checkpoint holds; of buffers in host memory
  Optimizer::Buffers updated() const;  ///< what the optimizer takes
  Tensor parameter_values() const;
  Tensor gradient_values() const;  ///< fp32
  Tensor ema_values() const;       ///< fp32; none where there is no average
  /// What the model computes with, of the compute dtype: the parameters themselves, or their copy.
  Tensor weights() const;
  /// The parameters of a fresh model (model/init.h), and with them the average; in host memory.
  void draw(const ParameterTable& table, std::uint64_t seed, ThreadPool& pool) const;
  void begin_ema(ThreadPool& pool) const;  ///< at the parameters; in host memory
  /// Parameters to weights, on the buffers' device.
  void round_weights(Stream stream) const;

  Buffer parameters, gradients, rounded;
  std::vector<Buffer> optimizer_state;  ///< named by optimizer_state()
  Buffer ema;                           ///< empty without training.ema_decay
  DType compute_dtype, parameter_dtype, state_dtype;
};

/// Flat buffers in host memory, which checkpoints are written from and read into: those of the CPU
/// themselves, or a copy of a device's for as long as this lives. The stream is the device's.
class HostBuffers {
 public:
  HostBuffers(const FlatBuffers& buffers, const ParameterTable& table, const Config& config,
              Stream stream);
  const FlatBuffers& get() const { return copy_ ? *copy_ : buffers_; }
  void fetch() const;  ///< from the device; done when it returns
  void store() const;  ///< to the device; done when it returns

 private:
  template <class Fn>
  void for_each_pair(const Fn& fn) const;
  const FlatBuffers& buffers_;
  const Stream stream_;
  std::optional<FlatBuffers> copy_;
};

}  // namespace hgt
