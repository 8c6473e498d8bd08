#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "hgtrain/infer/sampler.h"

namespace hgt {

/// Runs the model over further tokens of the text and returns the logits [vocabulary] after the
/// last one. They lie on the sampler's device and are valid until the next call.
using NextLogits = std::function<Tensor(std::span<const std::int32_t>)>;

struct GenerateLimits {
  std::int64_t max_tokens = 0;        ///< how many to generate
  std::int64_t context_length = 0;    ///< longest text of the model, prompt included
  std::vector<std::int32_t> end_ids;  ///< any of them ends the text, and is not part of it
};

enum class StopReason { kEndOfText, kMaxTokens, kContextFull };

/// "end_of_text", "max_tokens", "context_full"
std::string_view name_of(StopReason reason);

/// Continues a prompt of at least one token, and calls `on_token` for each new one. Error(kConfig)
/// if the prompt fills the context.
StopReason generate(const NextLogits& next_logits, std::span<const std::int32_t> prompt,
                    Sampler& sampler, const GenerateLimits& limits,
                    const std::function<void(std::int32_t)>& on_token);

}  // namespace hgt
