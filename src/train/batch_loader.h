#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "hgtrain/data/dataset.h"
#include "hgtrain/parallel/context_split.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {

struct Config;

/// Rows of a step for one rank: [rows, T] token ids, their successors, each token's position in its
/// document (empty if SampleForm has no positions), and the samples that they come from.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t> samples;
  // All T + 1 tokens and T positions of the sample that was read last:
  std::vector<std::int32_t> row = {}, row_positions = {};
};

/// How a sample is cut into tokens and positions.
struct SampleForm {
  std::int64_t seq_length = 0;                      ///< T
  std::optional<std::int64_t> document_start = {};  ///< the id that each document in it begins with
  int context_size = 1, context_rank = 0;           ///< of the ranks that share each sample

  /// The tokens of a sample that the rank has.
  SampleRows tokens() const { return context_rows(seq_length, context_size, context_rank); }
  bool has_positions() const { return document_start || context_size > 1; }
};
/// The form of whole samples, and of the parts of them that a rank of the plan has.
SampleForm sample_form(const Config& config);
SampleForm sample_form(const Config& config, const RankPlan& plan);

/// Reads samples `rows`, counted from position `consumed` of the run, into `out`, whose memory is
/// used again.
void read_batch(const Dataset& dataset, std::int64_t consumed, Range rows, const SampleForm& form,
                Batch& out);

/// The batches of a rank in order, the next one read by a thread while the caller works on one.
class BatchLoader {
 public:
  /// `rows` of each step are this rank's; steps are `batch_size` samples apart and start at
  /// `consumed`.
  BatchLoader(const Dataset& dataset, Range rows, std::int64_t batch_size, const SampleForm& form,
              std::int64_t consumed);
  ~BatchLoader();

  /// Waits for the next batch, which stays valid until the next call. Throws the error with which
  /// reading it failed.
  const Batch& next();

 private:
  void serve();

  const Dataset& dataset_;
  const Range rows_;
  const std::int64_t batch_size_;
  const SampleForm form_;
  std::int64_t consumed_;         ///< position of the thread
  std::array<Batch, 2> batches_;  ///< one is the caller's, the other the thread's; they alternate
  std::mutex mutex_;              ///< of everything below
  std::condition_variable changed_;
  std::int64_t wanted_ = 1, read_ = 0;  ///< batches so far
  bool closing_ = false;
  std::exception_ptr error_;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace hgt
