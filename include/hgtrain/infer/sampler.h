#pragma once

#include <cstdint>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// How the next token is chosen, by HF's names and in HF's order: divide by the temperature, keep
/// the top_k largest, then of those the fewest whose probability reaches top_p, then draw.
struct SamplingOptions {
  double temperature = 1.0;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;    ///< 0 = all; ties with the k-th largest stay
  double top_p = 1.0;        ///< in (0, 1]; at least one token stays
  std::uint64_t seed = 0;
};

/// Error(kConfig) where an option is out of its range.
void check(const SamplingOptions& options);

/// Draws tokens, where the logits lie. The draw at a position is a function of (seed, position,
/// logits) alone, the same on every device (hgtrain/ops/sample.h).
class Sampler {
 public:
  /// Checks the options.
  Sampler(const SamplingOptions& options, Stream stream);

  /// The token at `position` of the text, given the logits [vocabulary] on the stream's device.
  /// Waits for it. Error(kData) where one is NaN or infinity, or all are minus infinity.
  std::int32_t pick(const Tensor& logits, std::int64_t position);

 private:
  const SamplingOptions options_;
  const Stream stream_;
  const Buffer token_;
};

}  // namespace hgt
