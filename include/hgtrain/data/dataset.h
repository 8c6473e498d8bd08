#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/config/config.h"

namespace hgt {

/// A split of the data as fixed-length samples of seq_length + 1 tokens.
///
/// Sample order: `sample_index(step, j)` says which sample is the j-th of a step; a pure function of (seed,
/// epoch, step, j), O(1), no sample twice within an epoch. Without shuffle, sample j holds the tokens
/// j*T .. j*T+T. Thread-safe after open; files are mapped, not read into memory.
class Dataset {
 public:
  enum class Split { kTrain, kValid };
  /// Opens and checks every file. Throws Error(kData) naming file and offset where one is damaged.
  static std::unique_ptr<Dataset> open(const DataConfig& config, std::int64_t seq_length, Split split);
  virtual ~Dataset() = default;

  virtual std::int64_t num_samples() const = 0;  ///< of one epoch
  virtual std::int64_t num_tokens() const = 0;
  virtual std::int64_t max_token() const = 0;  ///< largest id, from the manifest or the type's limit; for checks

  /// The dataset sample that stands at position `consumed` = step * train_batch_size + j of the run.
  virtual std::int64_t sample_at(std::int64_t consumed) const = 0;
  /// Writes the seq_length + 1 tokens of a sample. Error(kData) where an id is >= `vocab_size`.
  virtual void read(std::int64_t sample, std::span<std::int32_t> tokens) const = 0;
};

}  // namespace hgt
