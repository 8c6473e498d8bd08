#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/dtype.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/data/tokenizer.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/compute_stream.h"
#include "hgtrain/infer/generate.h"

namespace hgt {

/// Continues texts with the model of a folder.
class Generator {
 public:
  struct Options {
    std::string weights = "model";  ///< or ema: the moving average of the weights
    DType dtype = DType::kF32;      ///< to compute in
    bool cuda = false;              ///< on the first GPU
    int threads = 1;                ///< on the CPU
  };
  /// Loads config, tokenizer and weights. `folder` is find_model_folder's. Error(kData) if a file
  /// is damaged, Error(kConfig) if it holds something that hgtrain does not have.
  Generator(const std::string& folder, const Options& options);

  /// The tokens of `prompt`; for an empty one, the end-of-text token. Error(kConfig) if the prompt
  /// is empty and the tokenizer has no such token.
  std::vector<std::int32_t> encode(const std::string& prompt) const;
  std::int64_t context_length() const { return config_.max_position_embeddings; }

  /// Continues `prompt` by at most `max_tokens` tokens, and calls `on_text` with the bytes of each,
  /// which may be a part of a character. Errors are those of generate() and Sampler.
  StopReason run(std::span<const std::int32_t> prompt, std::int64_t max_tokens,
                 const SamplingOptions& sampling,
                 const std::function<void(std::string_view)>& on_text);

 private:
  Buffer load_weights(const std::string& folder, const std::string& which);
  Tensor tensor(const Buffer& weights) const;

  const ModelConfig config_;
  const ParameterTable table_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::vector<std::int32_t> end_ids_;
  ComputeStream stream_;
  const DType dtype_;
  const Buffer weights_;
};

}  // namespace hgt
