#include "hgtrain/infer/generate.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfText:
      return "end_of_text";
    case StopReason::kMaxTokens:
      return "max_tokens";
    case StopReason::kContextFull:
      return "context_full";
  }
  return "?";
}

StopReason generate(const NextLogits& next_logits, std::span<const std::int32_t> prompt,
                    Sampler& sampler, const GenerateLimits& limits,
                    const std::function<void(std::int32_t)>& on_token) {
  auto length = static_cast<std::int64_t>(prompt.size());
  if (length >= limits.context_length)
    throw Error(
        ErrorKind::kConfig,
        fmt::format(
            "the prompt has {} tokens, but the model's context is {} tokens, prompt included",
            length, limits.context_length),
        "give a shorter prompt");
  std::int32_t token = 0;
  std::span<const std::int32_t> fresh = prompt;
  for (std::int64_t made = 0; made < limits.max_tokens; ++made, ++length) {
    if (length == limits.context_length) return StopReason::kContextFull;
    token = sampler.pick(next_logits(fresh), length);
    if (std::find(limits.end_ids.begin(), limits.end_ids.end(), token) != limits.end_ids.end())
      return StopReason::kEndOfText;
    on_token(token);
    fresh = {&token, 1};
  }
  return StopReason::kMaxTokens;
}

}  // namespace hgt
