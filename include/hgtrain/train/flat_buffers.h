#pragma once

#include <optional>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The flat buffers of a worker on its device, laid out by the parameter table; fp32, and in 16-bit
/// training a rounded copy of the parameters, which are then called masters.
struct FlatBuffers {
  FlatBuffers(const ParameterTable& table, const Config& config, Device device = Device::cpu());
  FlatState state() const;  ///< what a checkpoint holds; of buffers in host memory
  /// What the model computes with, of the compute dtype: the parameters themselves, or their copy.
  Tensor weights() const;
  /// The copy alone; none where there is none.
  Tensor rounded_weights() const;
  /// Parameters to weights, on the buffers' device.
  void round_weights(Stream stream) const;

  Buffer parameters, gradients, rounded;
  std::vector<Buffer> optimizer_state;  ///< named by optimizer_state()
  Buffer ema;                           ///< empty without training.ema_decay
  DType compute_dtype;
};

/// A flat fp32 buffer as a tensor.
Tensor flat_tensor(const Buffer& buffer);

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
