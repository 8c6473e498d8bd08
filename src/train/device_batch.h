#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"

#include "batch_loader.h"

namespace hgt {

/// Batches on the model's device. While a step works on one, the next one comes over a queue of its
/// own; each micro-batch is then put into the same place, so that what a step queues does not
/// change from micro-batch to micro-batch.
class DeviceBatch {
 public:
  /// For at most `rows` samples of the form, with `micro_rows` in a micro-batch, of which there are
  /// `micro_slots` at a time.
  DeviceBatch(std::int64_t rows, std::int64_t micro_rows, const SampleForm& form, Stream stream,
              int micro_slots = 1);

  /// Starts to copy the batch to the device; the caller may reuse `batch` once this returns. Its
  /// row 0 is sample `samples.first_sample` of the step. Work enqueued on the stream after this
  /// call runs after the copy. This overwrites the batch loaded two calls ago: the host must have
  /// waited for all work that uses that one.
  void load(const Batch& batch, SampleKey samples);
  /// Queues on the stream: rows [begin, begin + rows) of the batch loaded last, in the slot's
  /// place. The loss scale is the caller's to fill.
  MicroBatch stage_micro_batch(std::int64_t begin, std::int64_t rows, int slot = 0);

 private:
  /// Parts of one allocation: a key for each row, because its micro-batch may begin there, then for
  /// each kind of id as many rows.
  struct Ids {
    Ids(const char* name, std::int64_t rows, const SampleForm& form, Device device, bool pinned);
    Buffer memory;
    std::int32_t *tokens, *targets, *positions;  ///< the last is null if samples have none
    SampleKey* keys;
  };
  /// A batch on its way.
  struct Slot {
    Slot(std::int64_t rows, const SampleForm& form, Stream stream);
    Ids host;
    std::optional<Ids> device;  ///< none on the CPU, like the event
    std::optional<CudaEvent> arrived;
  };
  const Ids& arrived(const Slot& slot) const { return slot.device ? *slot.device : slot.host; }

  const std::int64_t seq_length_;  ///< tokens that the rank has of a sample
  const Stream stream_;
  const std::optional<CudaQueue> copies_;
  std::array<Slot, 2> slots_;
  std::size_t current_ = 0;
  std::vector<Ids> micros_;  ///< by slot
};

}  // namespace hgt
