#include "hgtrain/model/decoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/embedding.h"
#include "hgtrain/ops/linear.h"

#include "activations.h"
#include "layer.h"
#include "rope_table.h"

namespace hgt {
namespace {

constexpr std::int64_t kChunk = 256;  ///< tokens of a prompt computed at once

ModelConfig one_layer(ModelConfig config) {
  config.num_hidden_layers = 1;
  return config;
}

class CachedDecoder final : public Decoder {
 public:
  CachedDecoder(const ModelConfig& config, const ParameterTable& table, const Tensor& parameters,
                std::int64_t max_length, ThreadPool& pool)
      : config_(config),
        max_length_(max_length),
        stream_(pool),
        weights_(bind_weights(config_, table, parameters)),
        memory_(one_layer(config_), {1, std::min(kChunk, max_length), 1}, stream_.device()),
        row_(config_.num_key_value_heads * config_.head_dim) {
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      layers_.emplace_back(config_, i);
      const std::int64_t bytes = max_length * row_ * static_cast<std::int64_t>(sizeof(float));
      keys_.emplace_back("cached keys", bytes);
      values_.emplace_back("cached values", bytes);
    }
    if (family_of(config_).rope) rope_ = RopeTable(config_, max_length, stream_);
  }

  std::int64_t max_length() const override { return max_length_; }
  std::int64_t length() const override { return length_; }

  void truncate(std::int64_t length) override {
    if (length < 0 || length > length_)
      throw Error(ErrorKind::kInternal,
                  fmt::format("decoder: truncate {} tokens to {}", length_, length));
    length_ = length;
  }

  std::span<const float> append(std::span<const std::int32_t> tokens) override {
    const std::int64_t count = static_cast<std::int64_t>(tokens.size());
    if (count < 1) throw Error(ErrorKind::kInternal, "decoder: no tokens to append");
    if (count > max_length_ - length_)
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} tokens after {} exceed the longest sequence of {}", count,
                              length_, max_length_),
                  "use a shorter prompt or generate fewer tokens");
    check(tokens);
    Tensor last;
    for (std::int64_t begin = 0; begin < count; begin += kChunk)
      last = chunk(tokens.subspan(static_cast<std::size_t>(begin),
                                  static_cast<std::size_t>(std::min(kChunk, count - begin))));
    return logits(last);
  }

 private:
  void check(std::span<const std::int32_t> tokens) const {
    for (const std::int32_t token : tokens)
      if (token < 0 || token >= config_.vocab_size)
        throw Error(ErrorKind::kData, fmt::format("token {} is outside the vocabulary of {}", token,
                                                  config_.vocab_size));
  }

  /// Appends up to kChunk tokens; the residual stream of the last one, [1, C].
  Tensor chunk(std::span<const std::int32_t> tokens) {
    Pass pass;
    pass.batch = 1;
    pass.length = static_cast<std::int64_t>(tokens.size());
    const std::int64_t end = length_ + pass.length;
    if (family_of(config_).rope) {
      rope_.prepare(end, stream_);
      pass.cos = rope_.cos(length_, end);
      pass.sin = rope_.sin(length_, end);
    }
    Tensor x = memory_.get("embedded", 0, {pass.length, config_.hidden_size});
    const Tensor ids(const_cast<std::int32_t*>(tokens.data()), {1, pass.length}, DType::kI32);
    embedding_fwd(ids, weights_.tokens,
                  weights_.positions ? weights_.positions.slice(0, length_, end) : Tensor(),
                  x.split(0, 1), stream_);
    const LayerState state(memory_, 0, 0, config_, pass);
    const LayerScratch scratch(memory_, config_, pass);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Heads h = layers_[i].project(weights_.layers[i], x, pass, state, stream_);
      store(h.k, keys_[i]);
      store(h.v, values_[i]);
      layers_[i].attend(h.q, cached(keys_[i], end), cached(values_[i], end), pass, state, stream_);
      layers_[i].finish(weights_.layers[i], x, pass, state, scratch, stream_);
      x = state.output;
    }
    length_ = end;
    return x.slice(0, pass.length - 1, pass.length);
  }

  /// The first `count` rows of a cache, [1, count, K, D].
  Tensor cached(const Buffer& cache, std::int64_t count) const {
    return Tensor(cache.data(), {1, count, config_.num_key_value_heads, config_.head_dim});
  }

  /// Copies heads [N, K, D] behind the rows a cache has.
  void store(const Tensor& heads, const Buffer& cache) const {
    float* to = cache.as<float>().data() + length_ * row_;
    for (std::int64_t n = 0; n < heads.size(0); ++n, to += row_) {
      const float* const from = heads.data<float>() + n * heads.stride(0);
      std::copy(from, from + row_, to);  // the heads of a token lie side by side
    }
  }

  std::span<const float> logits(const Tensor& x) const {
    NormState state;
    state.out = memory_.get("final_norm", 0, {1, config_.hidden_size});
    if (weights_.final_norm.bias) state.mean = memory_.get("final_mean", 0, {1});
    state.scale = memory_.get("final_scale", 0, {1});
    norm_fwd(weights_.final_norm, static_cast<float>(config_.norm_eps), x, state, stream_);
    const Tensor out = memory_.get("logits", 0, {1, config_.vocab_size});
    linear_fwd(state.out, weights_.output, {}, out, stream_);
    return {out.data<float>(), static_cast<std::size_t>(config_.vocab_size)};
  }

  const ModelConfig config_;
  const std::int64_t max_length_;
  const Stream stream_;
  const Weights weights_;
  const Activations memory_;  ///< of one layer: all layers use it in turn
  const std::int64_t row_;    ///< floats of a token's keys in one layer
  std::vector<Layer> layers_;
  std::vector<Buffer> keys_, values_;  ///< [max_length, K, D] for each layer
  RopeTable rope_;
  std::int64_t length_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> Decoder::create(const ModelConfig& config, const ParameterTable& table,
                                         const Tensor& parameters, std::int64_t max_length,
                                         ThreadPool& pool) {
  if (parameters.numel() != table.total)
    throw Error(ErrorKind::kInternal, fmt::format("decoder: {} parameters for a table of {}",
                                                  parameters.numel(), table.total));
  if (max_length < 1)
    throw Error(ErrorKind::kConfig, fmt::format("a sequence of {} tokens is none", max_length));
  check_positions(config, max_length);
  return std::make_unique<CachedDecoder>(config, table, parameters, max_length, pool);
}

}  // namespace hgt
