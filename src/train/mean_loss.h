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

/// What a rank evaluates with, `round` micro-batches at a time, which fit in `batch`. `loss_sums`
/// has room for an fp64 for each on the stream's device.
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
  const Buffer& loss_sums;
  std::int64_t round;
  Progress& progress;
  /// Evaluates that many rows of the batch loaded last, and writes the sum of each micro-batch's
  /// losses to `loss_sums`. Every rank calls it equally often if a round is one micro-batch: with 0
  /// rows after its last one.
  std::function<void(std::int64_t rows)> evaluate;
};

/// Mean loss over the first `samples` samples of the data, shared out over the data-parallel
/// ranks in micro-batches, whose losses are added in their order: so it does not depend on the
/// number of ranks. All ranks call it together.
double mean_loss(const Evaluation& evaluation, std::int64_t samples);

}  // namespace hgt
