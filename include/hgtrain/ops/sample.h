#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

inline constexpr std::int64_t kMaxSampledVocabulary = 1 << 23;

/// Draws a token on the stream's device: of the `top_k` likeliest (0: of all; ties with the k-th
/// stay) the fewest that together have the probability `top_p`, likeliest first, of equals the
/// lowest id; at least one. Probabilities are those of softmax(logits / temperature), of the top_p
/// those among the top_k, as transformers has it. The token is the one that `uniform` falls on in
/// the distribution function over the kept ones, likeliest first. At a temperature of 0 it is the
/// likeliest.
///
///   logits  [V]  fp32, bf16 or fp16, V in [1, kMaxSampledVocabulary]; minus infinity: cannot come
///   token   [1]  int32, written: -1 where a logit is NaN or infinity, or none is finite
///
/// `temperature` is 0 or more, top_k 0 or more, top_p in (0, 1], uniform in [0, 1). A token less
/// likely than the likeliest by a factor of 2^40 never comes. The sums are of integers, so the
/// token is the same bit for bit on every device and for any number of threads.
///
/// Moves V elements; a GPU, by one block, reads them up to 19 times more from its L2 cache.
void sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
            double uniform, const Tensor& token, Stream stream);

}  // namespace hgt
