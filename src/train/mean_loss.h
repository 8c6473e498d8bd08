#pragma once

#include <cstdint>
#include <functional>

#include "hgtrain/comm/groups.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"
#include "hgtrain/wire/control.h"

#include "device_batch.h"

namespace hgt {

struct Config;

/// What a rank evaluates with. `loss_sum` has room for an fp64 on the stream's device.
struct Evaluation {
  const Config& config;
  const Groups& groups;
  SampleForm form;
  int share, shares;  ///< the rank's of the micro-batches, and how many there are
  bool has_losses;    ///< this rank gives its micro-batches' losses; else another one that shares
                      ///< the model does
  Stream stream;
  const Dataset& data;
  DeviceBatch& batch;
  const Buffer& loss_sum;
  Progress& progress;
  /// Writes the sum of a micro-batch's losses to `loss_sum`. Every rank calls it equally often,
  /// with null after its last micro-batch.
  std::function<void(const MicroBatch*)> evaluate;
};

/// Mean loss over the first `samples` samples of the data, shared out over the data-parallel
/// ranks in micro-batches, whose losses are added in their order: so it does not depend on the
/// number of ranks. All ranks call it together.
double mean_loss(const Evaluation& evaluation, std::int64_t samples);

}  // namespace hgt
