#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

namespace hgt {

struct DataConfig;

/// A split of the data as fixed-length samples of seq_length + 1 tokens.
///
/// A file is one stream of tokens: its documents, one after the other, with end-of-text between
/// them. Its sample j is the tokens j*T .. j*T+T (T = seq_length), so the last token of a sample is
/// the first of the next. The validation split is the tail of each file, round(samples *
/// valid_fraction) of its samples but at least one; it shares a single token with the training
/// split, the last target there.
///
/// Order: position p of the run (step * train_batch_size + j) lies in epoch p / num_samples(). With
/// shuffle, the samples of an epoch are permuted with the key (seed, epoch); without, they are in
/// the files' order, file after file.
///
/// Weights: an epoch has as many positions as all files have samples, num_samples(). Each file gets
/// a share of them by its weight, rounded to whole samples, at least one; the files are evenly
/// interleaved. Each file counts its own epochs (its draws so far / its samples), and none of its
/// samples comes twice within one of them.
///
/// sample_at and read are pure functions of the files and their arguments: there is nothing to
/// save, a resume takes O(1), and both are thread-safe. Files are read by position, not mapped, so
/// that a file that is truncated during a job causes an Error and not SIGBUS.
class Dataset {
 public:
  enum class Split { kTrain, kValid };
  /// Opens and checks every file. `vocab_size` bounds the ids that read() lets through.
  /// Throws Error(kData) with the file and the byte offset if a file is damaged, or with the
  /// numbers if there are fewer tokens than one sample; Error(kConfig) if weights or fractions are
  /// invalid.
  static std::unique_ptr<Dataset> open(const DataConfig& config, std::int64_t seq_length,
                                       Split split, std::int64_t vocab_size);
  virtual ~Dataset() = default;

  virtual std::int64_t num_samples() const = 0;  ///< of one epoch
  virtual std::int64_t num_tokens()
      const = 0;  ///< of the split, shared boundary tokens counted once
  /// A hash of the files' content (TokenFile::fingerprint), which does not depend on their paths.
  virtual std::uint64_t fingerprint() const = 0;
  /// TokenFile::whole_hash of all files.
  virtual std::uint64_t whole_hash(const std::stop_token&) const { return fingerprint(); }
  /// The fingerprint that earlier versions computed, for checkpoints that hold it.
  virtual std::uint64_t old_fingerprint() const { return fingerprint(); }

  /// The sample that stands at position `consumed` = step * train_batch_size + j of the run.
  virtual std::int64_t sample_at(std::int64_t consumed) const = 0;
  /// Writes the seq_length + 1 tokens of sample `sample`, in [0, num_samples()), to `tokens`.
  /// Throws Error(kData) with the file and the byte offset if an id is not below vocab_size or the
  /// file has become shorter.
  virtual void read(std::int64_t sample, std::span<std::int32_t> tokens) const = 0;
};

/// Whether the config asks for a validation split.
bool has_validation(const DataConfig& config);

}  // namespace hgt
