#pragma once

#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/optim/optimizer.h"

namespace hgt {

/// Optimizer's update on a CUDA device: queued on the stream; nothing waits for it.
class DeviceOptimizer {
 public:
  /// The buffers, the pieces and Lamb's norm parts must lie on the stream's device.
  DeviceOptimizer(const OptimizerConfig& config, const ParameterTable& table,
                  const Optimizer::Buffers& buffers, const Pieces& pieces, const Tensor& norm_parts,
                  Stream stream);

  void prepare(const Update* update);  ///< only for Lamb; `update` lies on the device
  void step(const Update* update);

 private:
  Stream stream_;
  bool is_lamb_;
  UpdateElementsArgs elements_{};
  Buffer first_pieces_;
  UpdateLambArgs lamb_{};
};

}  // namespace hgt
