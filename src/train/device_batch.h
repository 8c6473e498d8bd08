#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"

#include "batch_loader.h"

namespace hgt {

/// Batches in the memory of the model's device, one after the other.
class DeviceBatch {
 public:
  /// Of at most `rows` samples of the form.
  DeviceBatch(std::int64_t rows, const SampleForm& form, Stream stream);

  /// Copies the batch, which must stay until the stream is there; the one before it must not be in
  /// use any more.
  void load(const Batch& batch);
  /// Tokens, targets and positions of rows [begin, begin + rows); the rest is the caller's to fill.
  MicroBatch micro_batch(std::int64_t begin, std::int64_t rows) const;

 private:
  const std::int64_t seq_length_;
  const Stream stream_;
  Buffer tokens_, targets_, positions_;
};

}  // namespace hgt
