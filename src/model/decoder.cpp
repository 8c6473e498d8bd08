#include "hgtrain/model/decoder.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/model/model.h"
#include "hgtrain/ops/embedding.h"
#include "hgtrain/ops/linear.h"

#include "activations.h"
#include "head.h"
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
                std::int64_t max_length, Stream stream)
      : config_(config),
        max_length_(max_length),
        stream_(stream),
        dtype_(parameters.dtype()),
        weights_(bind_weights(config_, table, tensors_by_block(table, parameters))),
        memory_(one_layer(config_), {1, std::min(kChunk, max_length), 1, dtype_}, stream.device()),
        tokens_("tokens", kChunk * 4, stream.device()),
        row_bytes_(config_.num_key_value_heads * config_.head_dim * element_bytes()) {
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      layers_.emplace_back(config_, i);
      keys_.emplace_back("cached keys", max_length * row_bytes_, stream.device());
      values_.emplace_back("cached values", max_length * row_bytes_, stream.device());
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

  Tensor append(std::span<const std::int32_t> tokens) override {
    const std::int64_t count = static_cast<std::int64_t>(tokens.size());
    if (count < 1) throw Error(ErrorKind::kInternal, "decoder: no tokens to append");
    if (count > max_length_ - length_)
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} tokens after {} exceed the longest sequence of {}", count,
                              length_, max_length_),
                  "use a shorter prompt or generate fewer tokens");
    check(tokens);
    Tensor last;
    for (std::int64_t begin = 0, size = 0; begin < count; begin += size) {
      size = chunk_size(count - begin);
      last = chunk(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size)));
    }
    return logits(last);
  }

 private:
  /// How many of `left` tokens to compute at once. On a GPU few sizes occur, because products of
  /// each new size are timed first.
  std::int64_t chunk_size(std::int64_t left) const {
    const auto limit = static_cast<std::uint64_t>(std::min(kChunk, left));
    return static_cast<std::int64_t>(stream_.device().is_cpu() ? limit : std::bit_floor(limit));
  }

  void check(std::span<const std::int32_t> tokens) const {
    for (const std::int32_t token : tokens)
      if (token < 0 || token >= config_.vocab_size)
        throw Error(ErrorKind::kData, fmt::format("token {} is outside the vocabulary of {}", token,
                                                  config_.vocab_size));
  }

  /// Appends up to kChunk tokens; returns the residual stream of the last one, [1, C].
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
    const BatchActivations memory(memory_, 0, 1, pass.length);
    Tensor x = memory.get("embedded");
    stream_.copy(tokens_.data(), tokens.data(), tokens.size_bytes());
    const Tensor ids(tokens_.data(), {1, pass.length}, DType::kI32, stream_.device());
    embedding_fwd(ids, weights_.tokens,
                  weights_.positions ? weights_.positions.slice(0, length_, end) : Tensor(),
                  x.split(0, 1), stream_);
    const LayerState state(memory, 0);
    const LayerScratch scratch(memory);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const QkvHeads h = layers_[i].project(weights_.layers[i], x, pass, state, scratch, stream_);
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
    return Tensor(cache.data(), {1, count, config_.num_key_value_heads, config_.head_dim}, dtype_,
                  cache.device());
  }

  /// Copies heads [N, K, D] after the rows that a cache has.
  void store(const Tensor& heads, const Buffer& cache) const {
    const auto row = static_cast<std::size_t>(row_bytes_);  // a token's heads are contiguous
    stream_.copy_rows(cache.as<std::byte>().data() + length_ * row_bytes_, row, heads.raw(),
                      static_cast<std::size_t>(heads.stride(0) * element_bytes()), row,
                      static_cast<std::size_t>(heads.size(0)));
  }

  /// The logits of what follows x [1, C].
  Tensor logits(const Tensor& x) {
    const HeadState state(BatchActivations(memory_, 0, 1, 1));
    norm_fwd(weights_.final_norm, static_cast<float>(config_.norm_eps), x, state.norm, stream_);
    linear_fwd(state.norm.out, weights_.output, {}, state.logits, stream_);
    return state.logits.reshaped({config_.vocab_size});
  }

  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(dtype_)); }

  const ModelConfig config_;
  const std::int64_t max_length_;
  const Stream stream_;
  const DType dtype_;
  const Weights weights_;
  const Activations memory_;  ///< of one layer: all layers share it
  const Buffer tokens_;
  const std::int64_t row_bytes_;  ///< of a token's keys in one layer
  std::vector<Layer> layers_;
  std::vector<Buffer> keys_, values_;  ///< [max_length, K, D] for each layer
  RopeTable rope_;
  std::int64_t length_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> Decoder::create(const ModelConfig& config, const ParameterTable& table,
                                         const Tensor& parameters, std::int64_t max_length,
                                         Stream stream) {
  if (parameters.numel() != table.total)
    throw Error(ErrorKind::kInternal, fmt::format("decoder: {} parameters for a table of {}",
                                                  parameters.numel(), table.total));
  if (max_length < 1)
    throw Error(ErrorKind::kConfig,
                fmt::format("a sequence needs 1 token at least, not {}", max_length));
  check_positions(config, max_length);
  return std::make_unique<CachedDecoder>(config, table, parameters, max_length, stream);
}

}  // namespace hgt
