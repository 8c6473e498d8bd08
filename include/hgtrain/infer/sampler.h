#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hgt {

/// How the next token is chosen, by HF's names and in HF's order: divide by the temperature, keep
/// the top_k largest, then of those the fewest whose probability reaches top_p, then draw.
struct SamplingOptions {
  double temperature = 1.0;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;    ///< 0 = all; ties with the k-th largest stay
  double top_p = 1.0;        ///< in (0, 1]; at least one token stays
  std::uint64_t seed = 0;
};

/// Draws tokens. The draw at a position is a function of (seed, position, logits) alone.
class Sampler {
 public:
  /// Error(kConfig) where an option is out of its range.
  explicit Sampler(const SamplingOptions& options);

  /// The token at `position` of the text, given the logits [vocabulary]. Error(kData) where one is
  /// NaN.
  std::int32_t pick(std::span<const float> logits, std::int64_t position);

 private:
  struct Candidate {
    float score;
    std::int32_t id;
  };
  void keep_top_k();
  void keep_top_p();
  SamplingOptions options_;
  std::vector<Candidate> candidates_;  ///< best first; equal scores by id
  std::vector<double> weights_;        ///< exp(score - best) of the candidates
};

}  // namespace hgt
