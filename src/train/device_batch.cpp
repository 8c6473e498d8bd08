#include "device_batch.h"

#include <algorithm>

namespace hgt {

DeviceBatch::Ids::Ids(const char* name, std::int64_t rows, const SampleForm& form, Device device,
                      bool pinned) {
  const std::int64_t ids = rows * form.tokens().length, kinds = form.has_positions() ? 3 : 2;
  const std::int64_t bytes = rows * static_cast<std::int64_t>(sizeof(SampleKey)) + kinds * ids * 4;
  memory = pinned ? Buffer::pinned_for(device, name, bytes) : Buffer(name, bytes, device);
  keys = static_cast<SampleKey*>(memory.data());
  tokens = reinterpret_cast<std::int32_t*>(keys + rows);
  targets = tokens + ids;
  positions = form.has_positions() ? targets + ids : nullptr;
}

DeviceBatch::Slot::Slot(std::int64_t rows, const SampleForm& form, Stream stream)
    : host("batch in host memory", rows, form, stream.device(), true) {
  if (stream.device().is_cpu()) return;
  device.emplace("batch", rows, form, stream.device(), false);
  arrived.emplace(stream.queue());
}

DeviceBatch::DeviceBatch(std::int64_t rows, std::int64_t micro_rows, const SampleForm& form,
                         Stream stream, int micro_slots)
    : seq_length_(form.tokens().length),
      stream_(stream),
      copies_(stream.device().is_cpu()
                  ? std::nullopt
                  : std::make_optional<CudaQueue>(stream.device(), stream.queue().module())),
      slots_{Slot(rows, form, stream), Slot(rows, form, stream)} {
  for (int slot = 0; slot < micro_slots; ++slot)
    micros_.emplace_back("micro-batch", micro_rows, form, stream.device(), false);
}

void DeviceBatch::load(const Batch& batch, SampleKey samples) {
  current_ = 1 - current_;
  Slot& slot = slots_[current_];
  std::copy(batch.tokens.begin(), batch.tokens.end(), slot.host.tokens);
  std::copy(batch.targets.begin(), batch.targets.end(), slot.host.targets);
  std::copy(batch.positions.begin(), batch.positions.end(), slot.host.positions);
  for (std::int64_t row = 0; row < std::ssize(batch.samples); ++row)
    slot.host.keys[row] = {samples.step, samples.first_sample + row};
  if (!slot.device) return;
  copies_->copy(slot.device->memory.data(), slot.host.memory.data(),
                static_cast<std::size_t>(slot.host.memory.bytes()));
  slot.arrived->record(*copies_);
  slot.arrived->make_wait(stream_.queue());
}

MicroBatch DeviceBatch::stage_micro_batch(std::int64_t begin, std::int64_t rows, int slot) {
  const Ids& from = arrived(slots_[current_]);
  const Ids& to = micros_[static_cast<std::size_t>(slot)];
  const auto ids = static_cast<std::size_t>(rows * seq_length_);
  const auto part = [&](std::int32_t* place, const std::int32_t* all) {
    if (all) stream_.copy(place, all + begin * seq_length_, ids * sizeof(std::int32_t));
    return std::span<const std::int32_t>(place, all ? ids : 0);
  };
  stream_.copy(to.keys, from.keys + begin, sizeof(SampleKey));
  return {.tokens_BT = part(to.tokens, from.tokens),
          .targets_BT = part(to.targets, from.targets),
          .positions_BT = part(to.positions, from.positions),
          .batch = rows,
          .seq_length = seq_length_,
          .samples = to.keys};
}

}  // namespace hgt
