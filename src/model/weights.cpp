#include "weights.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/model_family.h"

namespace hgt {
namespace {

class Binder {
 public:
  Binder(const ModelConfig& model, const ParameterTable& table, const std::vector<Tensor>& blocks)
      : m_(model), table_(table), blocks_(blocks) {}

  Weights bind() {
    const int head = static_cast<int>(m_.num_hidden_layers) + 1;
    Weights w;
    w.tokens = view(0, Role::kTokens, {m_.vocab_size, m_.hidden_size});
    w.positions = view(0, Role::kPositions, {m_.max_position_embeddings, m_.hidden_size});
    for (int block = 1; block < head; ++block) w.layers.push_back(layer(block));
    w.final_norm = norm(head, Role::kFinalNormGain, Role::kFinalNormBias);
    const Tensor output = view(head, Role::kOutput, {m_.vocab_size, m_.hidden_size});
    if (const Tensor& of_head = output ? output : w.tokens; of_head)
      w.output = of_head.transposed();
    return w;
  }

 private:
  /// The parameters of a role, which lie side by side, as one tensor; no tensor if there are none.
  Tensor view(int block, Role role, std::initializer_list<std::int64_t> shape) const {
    const Parameter* p = table_.find(block, role);
    const Tensor& values = blocks_[static_cast<std::size_t>(block)];
    if (!p || !values) return {};
    std::int64_t numel = 1;
    for (const std::int64_t size : shape) numel *= size;
    const std::int64_t begin = p->offset - table_.block(block).begin;
    if (begin + numel > values.numel()) return {};  // a copy of the token embedding alone
    return values.slice(0, begin, begin + numel).reshaped(shape);
  }

  Norm norm(int block, Role gain, Role bias) const {
    return {view(block, gain, {m_.hidden_size}), view(block, bias, {m_.hidden_size})};
  }

  Linear linear(int block, Role weight, Role bias, std::int64_t in, std::int64_t out) const {
    const bool conv1d = family_of(m_).conv1d;
    const Tensor stored = conv1d ? view(block, weight, {in, out}) : view(block, weight, {out, in});
    return {conv1d || !stored ? stored : stored.transposed(), view(block, bias, {out})};
  }

  LayerWeights layer(int block) const {
    const std::int64_t width = m_.hidden_size, inner = m_.intermediate_size;
    const std::int64_t queries = m_.num_attention_heads * m_.head_dim;
    return {
        .norm1 = norm(block, Role::kNorm1Gain, Role::kNorm1Bias),
        .qkv = linear(block, Role::kQkvWeight, Role::kQkvBias, width, qkv_columns(m_)),
        .query_norm = view(block, Role::kQueryNorm, {m_.head_dim}),
        .key_norm = view(block, Role::kKeyNorm, {m_.head_dim}),
        .out = linear(block, Role::kAttentionOutWeight, Role::kAttentionOutBias, queries, width),
        .norm2 = norm(block, Role::kNorm2Gain, Role::kNorm2Bias),
        .up = linear(block, Role::kUpWeight, Role::kUpBias, width, up_columns(m_)),
        .down = linear(block, Role::kDownWeight, Role::kDownBias, inner, width)};
  }

  const ModelConfig& m_;
  const ParameterTable& table_;
  const std::vector<Tensor>& blocks_;
};

}  // namespace

Weights bind_weights(const ModelConfig& model, const ParameterTable& table,
                     const std::vector<Tensor>& blocks) {
  return Binder(model, table, blocks).bind();
}

void check_positions(const ModelConfig& model, std::int64_t length) {
  if (family_of(model).rope || length <= model.max_position_embeddings) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("a sequence of {} tokens is longer than the model's "
                          "max_position_embeddings = {}",
                          length, model.max_position_embeddings),
              "use shorter sequences, or a model with more learned positions");
}

}  // namespace hgt
