#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "hgtrain/config/config.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/parallel/range.h"

namespace hgt {

/// Rows of a step for one rank: [rows, T] token ids, their successors, where each stands in its
/// document (none where a sample is one document), and which samples they are.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t> samples;
};

/// What a sample is made of.
struct SampleForm {
  std::int64_t seq_length = 0;                      ///< T
  std::optional<std::int64_t> document_start = {};  ///< the id that each document in it begins with
};
SampleForm sample_form(const Config& config);

/// Reads samples `rows`, counted from position `consumed` of the run.
Batch read_batch(const Dataset& dataset, std::int64_t consumed, Range rows, const SampleForm& form);

/// The batches of a rank in order, the next one read by a thread while the caller works on one.
class BatchLoader {
 public:
  /// `rows` of each step are this rank's; steps are `batch_size` samples apart and start at
  /// `consumed`.
  BatchLoader(const Dataset& dataset, Range rows, std::int64_t batch_size, const SampleForm& form,
              std::int64_t consumed);

  /// Waits for the next batch; what reading it threw is thrown here.
  Batch next();

 private:
  void start();

  const Dataset& dataset_;
  const Range rows_;
  const std::int64_t batch_size_;
  const SampleForm form_;
  std::int64_t consumed_;
  std::future<Batch> next_;  ///< its destructor waits for the thread
};

}  // namespace hgt
