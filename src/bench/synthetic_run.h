#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/groups.h"
#include "hgtrain/config/config.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/device/compute_stream.h"
#include "hgtrain/model/model.h"
#include "hgtrain/train/trainer.h"

namespace hgt {

/// Steps before the first one that counts.
inline constexpr int kWarmUpSteps = 2;

/// A new model and its trainer, on drawn tokens: one rank of `hgtrain train` without its folder, on
/// the CPU or the first GPU.
class SyntheticRun {
 public:
  /// The groups, which are those of the config's layout, outlive this object. All ranks make the
  /// same calls.
  SyntheticRun(const Config& config, const Groups& groups);

  const Stream& stream() const { return stream_; }
  const ParameterTable& table() const { return table_; }
  /// The config, and the memory of the GPU that its plan counts on.
  const Config& config() const { return config_; }
  /// "attention backend: ...", as use_cudnn() returns it; "" on a CPU.
  const std::string& attention() const { return attention_; }
  /// Runs a training step and returns its milliseconds. On a GPU the finished step is the previous
  /// one, like in a run, and the milliseconds are the time since the last return. They are right
  /// from the third call on, if nothing else runs between the calls.
  double step();
  /// The result of that step.
  const StepResult& finished() const { return finished_; }

 private:
  ComputeStream device_;
  const Stream stream_;
  const Config config_;
  const ParameterTable table_;
  const RankPlan plan_;
  const FlatBuffers buffers_;
  const UnitSlots slots_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Dataset> data_;
  Progress progress_;
  Requests requests_;
  std::unique_ptr<Trainer> trainer_;
  std::int64_t finished_ns_ = 0;
  StepResult finished_;
  std::string attention_;
};

}  // namespace hgt
