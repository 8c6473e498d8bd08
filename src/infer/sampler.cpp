#include "hgtrain/infer/sampler.h"

#include <cmath>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/philox.h"
#include "hgtrain/ops/sample.h"

namespace hgt {

namespace {

/// Uniform in [0, 1), 53 bits.
double uniform(std::uint64_t seed, std::int64_t position) {
  constexpr std::uint64_t kStream = 0x67656e6572617465;  // "generate": not the numbers of training
  const auto words = philox(seed, kStream, static_cast<std::uint64_t>(position));
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw Error(
        ErrorKind::kConfig,
        fmt::format("temperature = {} is not a finite number of at least 0", options.temperature),
        "0 always takes the likeliest token, 1 draws with the model's probabilities");
  if (options.top_k < 0)
    throw Error(ErrorKind::kConfig, fmt::format("top_k = {} is negative", options.top_k),
                "0 keeps all tokens");
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw Error(ErrorKind::kConfig,
                fmt::format("top_p = {} is not more than 0 and at most 1", options.top_p),
                "1 keeps all tokens");
}

Sampler::Sampler(const SamplingOptions& options, Stream stream)
    : options_(options),
      stream_(stream),
      token_("sampled token", sizeof(std::int32_t), stream.device()) {
  check(options);
}

std::int32_t Sampler::pick(const Tensor& logits, std::int64_t position) {
  sample(logits, static_cast<float>(options_.temperature), options_.top_k, options_.top_p,
         uniform(options_.seed, position),
         Tensor(token_.data(), {1}, DType::kI32, stream_.device()), stream_);
  std::int32_t token = 0;
  stream_.copy(&token, token_.data(), sizeof token);
  stream_.synchronize();
  if (token < 0)
    throw Error(ErrorKind::kData, "the model computes numbers that are not finite",
                "use another checkpoint, from before its training diverged, or --dtype fp32");
  return token;
}

}  // namespace hgt
