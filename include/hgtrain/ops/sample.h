#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

inline constexpr std::int64_t kMaxSampledVocabulary = 1 << 23;

/// Draws a token on the stream's device. The candidates are the `top_k` likeliest tokens (0: all;
/// ties with the k-th stay), and of these, likeliest first, the fewest whose probabilities reach
/// `top_p`, at least one. Of equally likely tokens the lowest id comes first. Probabilities are
/// softmax(logits / temperature); top_p counts them among the top_k, as transformers does.
/// `uniform` selects the token by the distribution function over the candidates, likeliest first. A
/// temperature of 0 gives the likeliest token.
///
///   logits  [V]  fp32, bf16 or fp16, V in [1, kMaxSampledVocabulary]; minus infinity: never drawn
///   token   [1]  int32, written: -1 if a logit is NaN or infinity, or none is finite
///
/// `temperature` is 0 or more, top_k 0 or more, top_p in (0, 1], uniform in [0, 1). A token that is
/// less likely than the likeliest by a factor of 2^40 is never drawn. All sums are of integers, so
/// the token is the same bit for bit on every device and for any number of threads.
///
/// Moves V elements; on a GPU, one block reads them up to 19 times more from the L2 cache.
void sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
            double uniform, const Tensor& token, Stream stream);

}  // namespace hgt
