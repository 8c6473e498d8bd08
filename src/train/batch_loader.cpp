#include "batch_loader.h"

#include <algorithm>

#include "hgtrain/base/trace.h"
#include "hgtrain/config/config.h"

namespace hgt {

namespace {

/// A sample's first token continues a document or begins one.
void number_tokens(std::span<const std::int32_t> tokens, std::optional<std::int64_t> document_start,
                   std::vector<std::int32_t>& out) {
  out.clear();
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

SampleForm sample_form(const Config& config, const RankPlan& plan) {
  SampleForm form = sample_form(config);
  form.context_size = plan.layout.context_size;
  form.context_rank = plan.at.context;
  return form;
}

void read_batch(const Dataset& dataset, std::int64_t consumed, Range rows, const SampleForm& form,
                Batch& out) {
  const SampleRows tokens = form.tokens();
  for (std::vector<std::int32_t>* const ids : {&out.tokens, &out.targets, &out.positions})
    ids->clear();
  out.row.resize(static_cast<std::size_t>(form.seq_length + 1));
  out.samples.clear();
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    out.samples.push_back(dataset.sample_at(consumed + rows.begin + row));
    dataset.read(out.samples.back(), out.row);
    const std::span all(out.row);
    if (form.has_positions())
      number_tokens(all.first(all.size() - 1), form.document_start, out.row_positions);
    for (std::int64_t run = 0; run < tokens.runs; ++run) {
      const auto append = [&](std::vector<std::int32_t>& to, std::span<const std::int32_t> from) {
        const auto own = from.subspan(static_cast<std::size_t>(tokens.begin_of(run)),
                                      static_cast<std::size_t>(tokens.run_length()));
        to.insert(to.end(), own.begin(), own.end());
      };
      append(out.tokens, all);
      append(out.targets, all.subspan(1));
      if (form.has_positions()) append(out.positions, out.row_positions);
    }
  }
}

BatchLoader::BatchLoader(const Dataset& dataset, Range rows, std::int64_t batch_size,
                         const SampleForm& form, std::int64_t consumed)
    : dataset_(dataset),
      rows_(rows),
      batch_size_(batch_size),
      form_(form),
      consumed_(consumed),
      thread_([this] { serve(); }) {}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::serve() {
  name_thread("data");
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return closing_ || read_ < wanted_; });
    if (closing_) return;
    Batch& batch = batches_[read_ % 2];
    lock.unlock();
    std::exception_ptr error;
    try {
      const Span span("read_batch");
      read_batch(dataset_, consumed_, rows_, form_, batch);
    } catch (...) {
      error = std::current_exception();
    }
    consumed_ += batch_size_;
    lock.lock();
    error_ = error;
    ++read_;
    changed_.notify_all();
    if (error) return;
  }
}

const Batch& BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return read_ == wanted_; });
  if (error_) std::rethrow_exception(error_);
  ++wanted_;
  changed_.notify_all();
  return batches_[(read_ - 1) % 2];
}

}  // namespace hgt
