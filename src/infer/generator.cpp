#include "hgtrain/infer/generator.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/error.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/device/upload.h"
#include "hgtrain/infer/model_folder.h"
#include "hgtrain/model/decoder.h"

namespace hgt {

Generator::Generator(const std::string& folder, const Options& options)
    : config_(read_hf_config(folder)),
      table_(parameter_table(config_, false)),
      tokenizer_(Tokenizer::from_folder(folder)),
      end_ids_(end_ids(folder)),
      stream_(options.cuda, options.threads),
      dtype_(options.dtype),
      weights_(load_weights(folder, options.weights)) {}

std::vector<std::int32_t> Generator::encode(const std::string& prompt) const {
  auto ids = tokenizer_->encode(prompt, true);
  if (ids.empty() && tokenizer_->end_of_text() >= 0) ids.push_back(tokenizer_->end_of_text());
  if (ids.empty())
    throw Error(ErrorKind::kConfig,
                "the prompt is empty, and the model's tokenizer has no token to start with");
  return ids;
}

StopReason Generator::run(std::span<const std::int32_t> prompt, std::int64_t max_tokens,
                          const SamplingOptions& sampling,
                          const std::function<void(std::string_view)>& on_text) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t context = context_length();
  const auto decoder = Decoder::create(
      config_, table_, tensor(weights_),
      length < context ? length + std::min(context - length, max_tokens) : context, stream_.get());
  Sampler sampler(sampling, stream_.get());
  // A vocabulary padded beyond the tokenizer's has ids without a text.
  const std::int64_t known = std::min(config_.vocab_size, tokenizer_->vocab_size());
  return generate([&](auto tokens) { return decoder->append(tokens).slice(0, 0, known); }, prompt,
                  sampler,
                  {.max_tokens = max_tokens, .context_length = context, .end_ids = end_ids_},
                  [&](std::int32_t token) {
                    on_text(tokenizer_->decode({&token, 1}));
                  });
}

Tensor Generator::tensor(const Buffer& weights) const {
  return Tensor(weights.data(), {table_.total}, dtype_, weights.device());
}

Buffer Generator::load_weights(const std::string& folder, const std::string& which) {
  Buffer weights("weights", table_.total * static_cast<std::int64_t>(size_of(dtype_)));
  load_hf_weights(folder, table_, tensor(weights), which);
  return uploaded(std::move(weights), stream_.get());
}

}  // namespace hgt
