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

/// The inputs of a rank's evaluation, which takes `round` micro-batches at a time; they fit in
/// `batch`. `loss_sums` has an fp64 for each of them on the stream's device.
struct Evaluation {
  const Config& config;
  const Groups& groups;
  SampleForm form;
  int share, shares;  ///< number of this rank's share of the micro-batches, and of shares
  bool has_losses;  ///< whether this rank reports its micro-batches' losses; else a rank that ///<
                    ///< shares the model with it does
  Stream stream;
  const Dataset& data;
  DeviceBatch& batch;
  const Buffer& loss_sums;
  std::int64_t round;
  Progress& progress;
  /// Evaluates that many rows of the batch loaded last, and writes the sum of each micro-batch's
  /// losses to `loss_sums`. If a round is one micro-batch, every rank calls it equally often, with
  /// 0 rows after its last one.
  std::function<void(std::int64_t rows)> evaluate;
};

/// Mean loss over the first `samples` samples of the data, which the data-parallel ranks share in
/// micro-batches. The losses are added in the order of the micro-batches, so the mean does not
/// depend on the number of ranks. All ranks call it together.
double mean_loss(const Evaluation& evaluation, std::int64_t samples);

}  // namespace hgt
