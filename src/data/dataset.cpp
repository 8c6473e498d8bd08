#include "hgtrain/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/data_config.h"
#include "hgtrain/data/token_file.h"

#include "blend.h"
#include "permutation.h"

namespace hgt {

namespace {

/// The samples of one file that belong to the split.
struct Part {
  TokenFile file;
  std::int64_t first_in_file;  ///< sample number within the file
  std::int64_t count;
  std::int64_t first;  ///< of its samples within the split
};

class SplitDataset final : public Dataset {
 public:
  SplitDataset(const DataConfig& config, std::int64_t seq_length, std::int64_t vocab_size)
      : seq_length_(seq_length),
        vocab_size_(std::min(vocab_size, std::int64_t{1} << 31)),
        shuffle_(config.shuffle),
        seed_(static_cast<std::uint64_t>(config.seed)) {}

  void add(TokenFile file, std::int64_t first_in_file, std::int64_t count) {
    parts_.push_back({std::move(file), first_in_file, count, num_samples_});
    num_samples_ += count;
  }
  void blend(std::span<const double> weights) { blend_.emplace(weights, num_samples_); }

  std::int64_t num_samples() const override { return num_samples_; }
  std::int64_t num_tokens() const override {
    return num_samples_ * seq_length_ + std::ssize(parts_);
  }
  std::uint64_t fingerprint() const override { return combined(&TokenFile::fingerprint); }
  std::uint64_t old_fingerprint() const override { return combined(&TokenFile::old_fingerprint); }
  std::uint64_t whole_hash(const std::stop_token& stop) const override {
    return combined(&TokenFile::whole_hash, stop);
  }

  std::int64_t sample_at(std::int64_t consumed) const override {
    const std::int64_t epoch = consumed / num_samples_, position = consumed % num_samples_;
    if (!blend_) return shuffled(0, epoch, position, num_samples_);
    const Blend::Draw draw = blend_->at(position);
    const Part& part = parts_[draw.file];
    const std::int64_t drawn = epoch * blend_->counts()[draw.file] + draw.index;
    return part.first + shuffled(draw.file, drawn / part.count, drawn % part.count, part.count);
  }

  void read(std::int64_t sample, std::span<std::int32_t> tokens) const override {
    auto after = std::ranges::upper_bound(parts_, sample, {}, &Part::first);
    const Part& part = *--after;
    part.file.read((part.first_in_file + sample - part.first) * seq_length_, tokens, vocab_size_);
  }

 private:
  template <class... Args>
  std::uint64_t combined(std::uint64_t (TokenFile::*hash_of)(const Args&...) const,
                         const Args&... args) const {
    std::uint64_t hash = 0;
    for (const Part& part : parts_)
      hash = hash * 0x9E3779B97F4A7C15 + (part.file.*hash_of)(args...);
    return hash;
  }
  std::int64_t shuffled(std::size_t file, std::int64_t epoch, std::int64_t i,
                        std::int64_t n) const {
    if (!shuffle_) return i;
    return permute(
        seed_, static_cast<std::uint64_t>(epoch) | static_cast<std::uint64_t>(file) << 40, i, n);
  }

  std::int64_t seq_length_, vocab_size_;
  bool shuffle_;
  std::uint64_t seed_;
  std::vector<Part> parts_;
  std::int64_t num_samples_ = 0;
  std::optional<Blend> blend_;
};

/// Each source's weight; empty if none is given.
std::vector<double> weights_of(const std::vector<DataSource>& sources) {
  std::vector<double> weights;
  for (const DataSource& source : sources) {
    if (!(source.weight >= 0) || !std::isfinite(source.weight))
      throw Error(ErrorKind::kConfig,
                  fmt::format("the weight of {} is {}", source.path, source.weight),
                  "use a positive number");
    if (source.weight > 0) weights.push_back(source.weight);
  }
  if (!weights.empty() && weights.size() != sources.size())
    throw Error(ErrorKind::kConfig, "some data sources have a weight and some have none",
                "give every source a weight, or none (each then counts by its size)");
  return weights;
}

/// How many samples a file holds; at least `min_samples`.
std::int64_t samples_in(const TokenFile& file, std::int64_t seq_length, std::int64_t min_samples) {
  const std::int64_t tokens = file.num_tokens();
  const std::int64_t samples = tokens > 0 ? (tokens - 1) / seq_length : 0;
  if (samples >= min_samples) return samples;
  throw Error(
      ErrorKind::kData,
      fmt::format("{} holds {} tokens; {} of seq_length = {} need{} {}", file.path(), tokens,
                  min_samples == 1 ? "one sample" : "a training and a validation sample",
                  seq_length, min_samples == 1 ? "s" : "", min_samples * seq_length + 1),
      tokens > min_samples
          ? fmt::format("prepare more text, or set training.seq_length to at most {}",
                        (tokens - 1) / min_samples)
          : "prepare more text");
}

void check(const DataConfig& config, std::int64_t seq_length) {
  if (config.train.empty())
    throw Error(ErrorKind::kConfig, "data.train_data_path names no files",
                "name a prefix that `hgtrain data prepare` made: \"data\": {\"train_data_path\": "
                "\"PREFIX\"}");
  if (!(config.valid_fraction >= 0 && config.valid_fraction < 1))
    throw Error(ErrorKind::kConfig,
                fmt::format("data.valid_fraction = {} must be at least 0 and less than 1",
                            config.valid_fraction));
  if (config.valid_fraction > 0 && !config.valid.empty())
    throw Error(ErrorKind::kConfig, "data.valid_data_path and data.valid_fraction are both given",
                "keep one of them");
  if (seq_length < 1)
    throw Error(ErrorKind::kConfig,
                fmt::format("training.seq_length = {} is not positive", seq_length));
}

}  // namespace

bool has_validation(const DataConfig& config) {
  return !config.valid.empty() || config.valid_fraction > 0;
}

std::unique_ptr<Dataset> Dataset::open(const DataConfig& config, std::int64_t seq_length,
                                       Split split, std::int64_t vocab_size) {
  check(config, seq_length);
  const bool is_valid = split == Split::kValid;
  if (is_valid && !has_validation(config))
    throw Error(ErrorKind::kConfig, "there is no validation data",
                "set data.valid_data_path or data.valid_fraction");
  const auto& sources = is_valid && !config.valid.empty() ? config.valid : config.train;
  const std::vector<double> weights = weights_of(sources);
  auto dataset = std::make_unique<SplitDataset>(config, seq_length, vocab_size);
  for (const DataSource& source : sources) {
    TokenFile file = TokenFile::open(source.path, config.token_dtype);
    const bool cut = config.valid_fraction > 0;
    const std::int64_t samples = samples_in(file, seq_length, cut ? 2 : 1);
    const auto wanted = std::llround(config.valid_fraction * static_cast<double>(samples));
    const std::int64_t tail = cut ? std::clamp<std::int64_t>(wanted, 1, samples - 1) : 0;
    if (is_valid && cut)
      dataset->add(std::move(file), samples - tail, tail);
    else
      dataset->add(std::move(file), 0, samples - tail);
  }
  if (!weights.empty()) dataset->blend(weights);
  return dataset;
}

}  // namespace hgt
