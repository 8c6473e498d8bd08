#include "hgtrain/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/philox.h"

namespace hgt {

namespace {

/// Uniform in [0, 1), 53 bits.
double uniform(std::uint64_t seed, std::int64_t position) {
  constexpr std::uint64_t kStream =
      0x67656e6572617465;  // "generate": apart from training's numbers
  const auto words = philox(seed, kStream, static_cast<std::uint64_t>(position));
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw Error(ErrorKind::kConfig,
                fmt::format("temperature = {} is not a number from 0 on", options.temperature),
                "0 takes the likeliest token each time, 1 draws as the model says");
  if (options.top_k < 0)
    throw Error(ErrorKind::kConfig, fmt::format("top_k = {} is negative", options.top_k),
                "0 keeps all tokens");
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw Error(ErrorKind::kConfig,
                fmt::format("top_p = {} is not above 0 and at most 1", options.top_p),
                "1 keeps all tokens");
}

std::int32_t Sampler::pick(std::span<const float> logits, std::int64_t position) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return !(x < INFINITY); }))
    throw Error(ErrorKind::kData, "the model's output is not finite",
                "its weights are damaged, or its training diverged");
  if (options_.temperature == 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());

  candidates_.clear();
  for (const float logit : logits)
    candidates_.push_back({logit / static_cast<float>(options_.temperature),
                           static_cast<std::int32_t>(candidates_.size())});
  keep_top_k();
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  keep_top_p();

  double left =
      uniform(options_.seed, position) * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t chosen = 0;
  while (chosen + 1 < weights_.size() && left >= weights_[chosen]) left -= weights_[chosen++];
  return candidates_[chosen].id;
}

void Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(candidates_.begin(), kth, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const float smallest = kth->score;
  std::erase_if(candidates_, [smallest](const Candidate& c) { return c.score < smallest; });
}

void Sampler::keep_top_p() {
  weights_.clear();
  for (const Candidate& c : candidates_)
    weights_.push_back(std::exp(static_cast<double>(c.score) - candidates_.front().score));
  const double enough = options_.top_p * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t kept = 0;
  for (double sum = 0; kept < weights_.size() && (kept == 0 || sum < enough); ++kept)
    sum += weights_[kept];
  candidates_.resize(kept);
  weights_.resize(kept);
}

}  // namespace hgt
