#pragma once

#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/optim/optimizer.h"

#include "chunks.h"
#include "elementwise.h"

namespace hgt {

/// Optimizer's update on a CUDA device: queued on the stream; nothing waits for it.
class DeviceOptimizer {
 public:
  /// The buffers must lie on the stream's device.
  DeviceOptimizer(const OptimizerConfig& config, const ParameterTable& table,
                  const Optimizer::Buffers& buffers, Stream stream);

  void step(const Update* update);  ///< `update` lies there, too

 private:
  void copy_pieces(const ParameterTable& table);

  Stream stream_;
  Buffer pieces_, first_pieces_;
  std::vector<DecayRange> decay_ranges_;
  bool is_lamb_;
  UpdateElementsArgs elements_{};
  UpdateLambArgs lamb_{};
};

}  // namespace hgt
