#include "device_batch.h"

#include <vector>

namespace hgt {

DeviceBatch::DeviceBatch(std::int64_t rows, const SampleForm& form, Stream stream)
    : seq_length_(form.seq_length), stream_(stream) {
  const auto buffer = [&](const char* name) {
    return Buffer(name, rows * form.seq_length * 4, stream.device());
  };
  tokens_ = buffer("tokens");
  targets_ = buffer("targets");
  if (form.document_start) positions_ = buffer("positions");
}

void DeviceBatch::load(const Batch& batch) {
  const auto copy = [&](const Buffer& to, const std::vector<std::int32_t>& from) {
    stream_.copy(to.data(), from.data(), from.size() * sizeof(std::int32_t));
  };
  copy(tokens_, batch.tokens);
  copy(targets_, batch.targets);
  copy(positions_, batch.positions);
}

MicroBatch DeviceBatch::micro_batch(std::int64_t begin, std::int64_t rows) const {
  const auto part = [&](const Buffer& buffer) {
    const auto ids = buffer.as<const std::int32_t>();
    if (ids.empty()) return ids;
    return ids.subspan(static_cast<std::size_t>(begin * seq_length_),
                       static_cast<std::size_t>(rows * seq_length_));
  };
  return {.tokens_BT = part(tokens_),
          .targets_BT = part(targets_),
          .positions_BT = part(positions_),
          .batch = rows,
          .seq_length = seq_length_};
}

}  // namespace hgt
