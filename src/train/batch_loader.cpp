#include "batch_loader.h"

#include <algorithm>

#include "hgtrain/base/trace.h"

namespace hgt {

namespace {

/// A sample's first token goes on with a document, or begins one.
void append_positions(std::span<const std::int32_t> tokens, std::int64_t document_start,
                      std::vector<std::int32_t>& out) {
  std::int32_t position = 0;
  for (const std::int32_t token : tokens) {
    if (token == document_start) position = 0;
    out.push_back(position++);
  }
}

}  // namespace

SampleForm sample_form(const Config& config) {
  return {config.training.seq_length,
          config.data.separate_documents ? config.data.end_of_text : std::nullopt};
}

Batch read_batch(const Dataset& dataset, std::int64_t consumed, Range rows,
                 const SampleForm& form) {
  const std::int64_t seq_length = form.seq_length;
  Batch batch;
  batch.tokens.resize(rows.size() * seq_length);
  batch.targets.resize(rows.size() * seq_length);
  std::vector<std::int32_t> sample(seq_length + 1);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    batch.samples.push_back(dataset.sample_at(consumed + rows.begin + row));
    dataset.read(batch.samples.back(), sample);
    std::copy_n(sample.begin(), seq_length, batch.tokens.begin() + row * seq_length);
    std::copy_n(sample.begin() + 1, seq_length, batch.targets.begin() + row * seq_length);
    if (form.document_start)
      append_positions(std::span(sample).first(seq_length), *form.document_start, batch.positions);
  }
  return batch;
}

BatchLoader::BatchLoader(const Dataset& dataset, Range rows, std::int64_t batch_size,
                         const SampleForm& form, std::int64_t consumed)
    : dataset_(dataset), rows_(rows), batch_size_(batch_size), form_(form), consumed_(consumed) {
  start();
}

void BatchLoader::start() {
  next_ = std::async(std::launch::async, [this, consumed = consumed_] {
    name_thread("data");
    const Span span("read_batch");
    return read_batch(dataset_, consumed, rows_, form_);
  });
}

Batch BatchLoader::next() {
  Batch batch = next_.get();
  consumed_ += batch_size_;
  start();
  return batch;
}

}  // namespace hgt
