#include "batch_loader.h"

#include <algorithm>

#include "hgtrain/base/trace.h"

namespace hgt {

Batch read_batch(const Dataset& dataset, std::int64_t consumed, Range rows,
                 std::int64_t seq_length) {
  Batch batch;
  batch.tokens.resize(rows.size() * seq_length);
  batch.targets.resize(rows.size() * seq_length);
  std::vector<std::int32_t> sample(seq_length + 1);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    batch.samples.push_back(dataset.sample_at(consumed + rows.begin + row));
    dataset.read(batch.samples.back(), sample);
    std::copy_n(sample.begin(), seq_length, batch.tokens.begin() + row * seq_length);
    std::copy_n(sample.begin() + 1, seq_length, batch.targets.begin() + row * seq_length);
  }
  return batch;
}

BatchLoader::BatchLoader(const Dataset& dataset, Range rows, std::int64_t batch_size,
                         std::int64_t seq_length, std::int64_t consumed)
    : dataset_(dataset),
      rows_(rows),
      batch_size_(batch_size),
      seq_length_(seq_length),
      consumed_(consumed) {
  start();
}

void BatchLoader::start() {
  next_ = std::async(std::launch::async, [this, consumed = consumed_] {
    name_thread("data");
    const Span span("read_batch");
    return read_batch(dataset_, consumed, rows_, seq_length_);
  });
}

Batch BatchLoader::next() {
  Batch batch = next_.get();
  consumed_ += batch_size_;
  start();
  return batch;
}

}  // namespace hgt
