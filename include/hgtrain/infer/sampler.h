#pragma once

#include <cstdint>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// How the next token is chosen, as in HF: divide the logits by the temperature, keep the top_k
/// largest, of these keep the smallest set whose probability reaches top_p, then draw.
struct SamplingOptions {
  double temperature = 1.0;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;    ///< 0 = all; ties with the k-th largest are kept
  double top_p = 1.0;        ///< in (0, 1]; at least one token is kept
  std::uint64_t seed = 0;
};

/// Error(kConfig) if an option is out of range.
void check(const SamplingOptions& options);

/// Draws tokens on the device of the logits. The token at a position depends on (seed, position,
/// logits) only and is the same on every device (hgtrain/ops/sample.h).
class Sampler {
 public:
  /// Checks the options.
  Sampler(const SamplingOptions& options, Stream stream);

  /// The token at `position` of the text, given the logits [vocabulary] on the stream's device.
  /// Waits for it. Error(kData) if a logit is NaN or infinity, or all are minus infinity.
  std::int32_t pick(const Tensor& logits, std::int64_t position);

 private:
  const SamplingOptions options_;
  const Stream stream_;
  const Buffer token_;
};

}  // namespace hgt
