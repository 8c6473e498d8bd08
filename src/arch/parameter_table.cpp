#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/layout_rules.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/model_family.h"

namespace hgt {
namespace {

std::int64_t numel_of(const std::vector<std::int64_t>& shape, const std::string& name) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape)
    numel = checked_mul(numel, size, name.c_str(), ErrorKind::kConfig);
  return numel;
}

/// Collects the parameters of a model in the order of its blocks.
class Builder {
 public:
  Builder(const ModelConfig& model, int tensor_size, std::int64_t vocabulary_unit)
      : m_(model),
        vocabulary_unit_(vocabulary_unit),
        normal_{Init::kNormal, model.initializer_range},
        rows_{.axis = 0, .parts = tensor_size},
        columns_{.axis = 1, .parts = tensor_size},
        key_rows_{.axis = 0,
                  .parts = std::min<std::int64_t>(tensor_size, model.num_key_value_heads)} {}

  std::vector<Parameter> build() {
    family_of(m_).lineage == Lineage::kGpt2 ? gpt2() : llama();
    return std::move(parameters_);
  }

 private:
  using Shape = std::vector<std::int64_t>;

  /// The rows of each part are padded to a multiple of `unit`.
  void add(Role role, std::string name, Shape shape, Init init, Split split = {},
           std::int64_t unit = 1) {
    Parameter p;
    p.name = std::move(name);
    p.role = role;
    p.block = block_;
    p.init = init;
    p.split = split;
    p.local_shape = shape;
    std::int64_t& cut = p.local_shape[static_cast<std::size_t>(split.axis)];
    cut = split.sections * round_up((cut / split.sections + split.parts - 1) / split.parts, unit);
    p.shape = std::move(shape);
    p.numel = numel_of(p.local_shape, p.name);
    parameters_.push_back(std::move(p));
  }

  /// GPT-2's Conv1D: weight [in, out], always with a bias. Either the outputs are split, in each of
  /// `sections`, or the inputs are.
  void conv1d_split_outputs(Role weight, Role bias, const std::string& name, std::int64_t in,
                            std::int64_t out, Init init, int sections) {
    add(weight, name + ".weight", {in, out}, init, {1, sections, rows_.parts});
    add(bias, name + ".bias", {out}, {Init::kZeros}, {0, sections, rows_.parts});
  }
  void conv1d_split_inputs(Role weight, Role bias, const std::string& name, std::int64_t in,
                           std::int64_t out, Init init) {
    add(weight, name + ".weight", {in, out}, init, rows_);
    add(bias, name + ".bias", {out}, {Init::kZeros});
  }

  /// A row for each id of the vocabulary.
  void vocabulary(Role role, const std::string& name) {
    add(role, name, {m_.vocab_size, m_.hidden_size}, normal_, rows_, vocabulary_unit_);
  }

  void layer_norm(Role gain, Role bias, const std::string& name) {
    add(gain, name + ".weight", {m_.hidden_size}, {Init::kOnes});
    add(bias, name + ".bias", {m_.hidden_size}, {Init::kZeros});
  }

  void gpt2() {
    const std::int64_t width = m_.hidden_size, heads = m_.num_attention_heads * m_.head_dim;
    // Layers that write to the residual stream get smaller initial weights, by their number.
    const Init residual{
        Init::kNormal,
        m_.initializer_range / std::sqrt(2.0 * static_cast<double>(m_.num_hidden_layers))};
    vocabulary(Role::kTokens, "transformer.wte.weight");
    add(Role::kPositions, "transformer.wpe.weight", {m_.max_position_embeddings, width}, normal_);
    for (std::int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      ++block_;
      const std::string at = fmt::format("transformer.h.{}.", layer);
      layer_norm(Role::kNorm1Gain, Role::kNorm1Bias, at + "ln_1");
      conv1d_split_outputs(Role::kQkvWeight, Role::kQkvBias, at + "attn.c_attn", width, 3 * heads,
                           normal_, 3);
      conv1d_split_inputs(Role::kAttentionOutWeight, Role::kAttentionOutBias, at + "attn.c_proj",
                          heads, width, residual);
      layer_norm(Role::kNorm2Gain, Role::kNorm2Bias, at + "ln_2");
      conv1d_split_outputs(Role::kUpWeight, Role::kUpBias, at + "mlp.c_fc", width,
                           m_.intermediate_size, normal_, 1);
      conv1d_split_inputs(Role::kDownWeight, Role::kDownBias, at + "mlp.c_proj",
                          m_.intermediate_size, width, residual);
    }
    ++block_;
    layer_norm(Role::kFinalNormGain, Role::kFinalNormBias, "transformer.ln_f");
    output();
  }

  void llama() {
    vocabulary(Role::kTokens, "model.embed_tokens.weight");
    for (std::int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      ++block_;
      llama_layer(fmt::format("model.layers.{}.", layer));
    }
    ++block_;
    add(Role::kFinalNormGain, "model.norm.weight", {m_.hidden_size}, {Init::kOnes});
    output();
  }

  void llama_layer(const std::string& at) {
    const std::int64_t width = m_.hidden_size, inner = m_.intermediate_size;
    const std::int64_t queries = m_.num_attention_heads * m_.head_dim;
    const std::int64_t keys = m_.num_key_value_heads * m_.head_dim;
    const std::string attn = at + "self_attn.", mlp = at + "mlp.";
    const Init zeros{Init::kZeros}, ones{Init::kOnes};

    add(Role::kNorm1Gain, at + "input_layernorm.weight", {width}, ones);
    add(Role::kQkvWeight, attn + "q_proj.weight", {queries, width}, normal_, rows_);
    add(Role::kQkvWeight, attn + "k_proj.weight", {keys, width}, normal_, key_rows_);
    add(Role::kQkvWeight, attn + "v_proj.weight", {keys, width}, normal_, key_rows_);
    if (m_.attention_bias) {
      add(Role::kQkvBias, attn + "q_proj.bias", {queries}, zeros, rows_);
      add(Role::kQkvBias, attn + "k_proj.bias", {keys}, zeros, key_rows_);
      add(Role::kQkvBias, attn + "v_proj.bias", {keys}, zeros, key_rows_);
    }
    if (m_.qk_norm) {
      add(Role::kQueryNorm, attn + "q_norm.weight", {m_.head_dim}, ones);
      add(Role::kKeyNorm, attn + "k_norm.weight", {m_.head_dim}, ones);
    }
    add(Role::kAttentionOutWeight, attn + "o_proj.weight", {width, queries}, normal_, columns_);
    if (m_.attention_out_bias) add(Role::kAttentionOutBias, attn + "o_proj.bias", {width}, zeros);
    add(Role::kNorm2Gain, at + "post_attention_layernorm.weight", {width}, ones);
    add(Role::kUpWeight, mlp + "gate_proj.weight", {inner, width}, normal_, rows_);
    add(Role::kUpWeight, mlp + "up_proj.weight", {inner, width}, normal_, rows_);
    if (m_.mlp_bias) {
      add(Role::kUpBias, mlp + "gate_proj.bias", {inner}, zeros, rows_);
      add(Role::kUpBias, mlp + "up_proj.bias", {inner}, zeros, rows_);
    }
    add(Role::kDownWeight, mlp + "down_proj.weight", {width, inner}, normal_, columns_);
    if (m_.mlp_bias) add(Role::kDownBias, mlp + "down_proj.bias", {width}, zeros);
  }

  void output() {
    if (!m_.tie_word_embeddings) vocabulary(Role::kOutput, "lm_head.weight");
  }

  const ModelConfig& m_;
  const std::int64_t vocabulary_unit_;
  const Init normal_;
  const Split rows_, columns_, key_rows_;  ///< of nn.Linear [out, in]
  int block_ = 0;
  std::vector<Parameter> parameters_;
};

void check_sizes(const ModelConfig& m) {
  constexpr std::int64_t kMaxLayers = 1 << 16, kMaxSize = std::int64_t{1} << 31;
  const struct {
    const char* name;
    std::int64_t size, max;
  } sizes[] = {{"vocab_size", m.vocab_size, kMaxSize},
               {"hidden_size", m.hidden_size, kMaxSize},
               {"intermediate_size", m.intermediate_size, kMaxSize},
               {"num_hidden_layers", m.num_hidden_layers, kMaxLayers},
               {"num_attention_heads", m.num_attention_heads, kMaxSize},
               {"num_key_value_heads", m.num_key_value_heads, kMaxSize},
               {"head_dim", m.head_dim, kMaxSize},
               {"max_position_embeddings", m.max_position_embeddings, kMaxSize}};
  for (const auto& [name, size, max] : sizes)
    if (size < 1 || size > max)
      throw Error(ErrorKind::kConfig,
                  fmt::format("model.{} = {} is not within 1 to {}", name, size, max));
  if (m.num_attention_heads % m.num_key_value_heads != 0)
    throw Error(
        ErrorKind::kConfig,
        fmt::format("model.num_key_value_heads = {} does not divide num_attention_heads = {}",
                    m.num_key_value_heads, m.num_attention_heads));
  if (family_of(m).rope && m.head_dim % 2 != 0)
    throw Error(
        ErrorKind::kConfig,
        fmt::format("model.head_dim = {} is odd: rotary embeddings need pairs", m.head_dim));
}

bool is_norm_or_bias(const Parameter& p) {
  return p.shape.size() == 1;
}

/// Whether a rank computes the gradient of such a parameter from its own heads.
bool is_of_heads(Role role) {
  return role == Role::kQkvWeight || role == Role::kQkvBias || role == Role::kQueryNorm ||
         role == Role::kKeyNorm;
}
/// Whether a rank computes it from its own rows of the residual stream, if rows are split.
bool is_of_rows(Role role) {
  return role == Role::kNorm1Gain || role == Role::kNorm1Bias || role == Role::kNorm2Gain ||
         role == Role::kNorm2Bias || role == Role::kFinalNormGain || role == Role::kFinalNormBias;
}

}  // namespace

std::vector<PartialGradients> partial_gradients(const ParameterTable& table, int tensor_size,
                                                bool split_rows) {
  std::vector<PartialGradients> out;
  const Parameter* last = nullptr;
  for (const Parameter& p : table.parameters) {
    const bool in_parts = is_of_heads(p.role) || (split_rows && is_of_rows(p.role));
    if (!in_parts || p.split.parts >= tensor_size) continue;
    const Range elements{p.offset, p.offset + p.numel};
    const bool joins =
        last && last + 1 == &p && last->block == p.block && last->split.parts == p.split.parts;
    if (joins)  // what lies between them is padding
      out.back().elements.end = elements.end;
    else
      out.push_back({elements, p.split.parts});
    last = &p;
  }
  return out;
}

ModelConfig tensor_part(ModelConfig model, int tensor_size, std::int64_t vocabulary_unit) {
  model.num_attention_heads /= tensor_size;
  model.num_key_value_heads = std::max<std::int64_t>(model.num_key_value_heads / tensor_size, 1);
  model.intermediate_size /= tensor_size;
  model.vocab_size = round_up((model.vocab_size + tensor_size - 1) / tensor_size, vocabulary_unit);
  return model;
}

ParameterTable parameter_table(const ModelConfig& model, bool no_decay_norms_and_biases,
                               int tensor_size, std::int64_t vocabulary_unit) {
  check_sizes(model);
  if (const std::string misfit = tensor_misfit(model, tensor_size); !misfit.empty())
    throw Error(ErrorKind::kConfig, misfit);
  ParameterTable table;
  table.parameters = Builder(model, tensor_size, vocabulary_unit).build();
  for (Parameter& p : table.parameters)
    p.decay = !(no_decay_norms_and_biases && is_norm_or_bias(p));
  std::stable_sort(table.parameters.begin(), table.parameters.end(),
                   [](const Parameter& a, const Parameter& b) {
                     return std::pair(a.block, !a.decay) < std::pair(b.block, !b.decay);
                   });

  const auto add = [](std::int64_t a, std::int64_t b) {
    return checked_add(a, b, "the number of parameters", ErrorKind::kConfig);
  };
  const Parameter* before = nullptr;
  std::int64_t end = 0;
  for (Parameter& p : table.parameters) {
    const bool same_matrix = before && before->role == p.role && before->block == p.block;
    if (!same_matrix)
      end = add(end, ParameterTable::kAlignment - 1) / ParameterTable::kAlignment *
            ParameterTable::kAlignment;
    p.offset = end;
    end = add(end, p.numel);
    table.num_parameters = add(table.num_parameters, numel_of(p.shape, p.name));
    before = &p;
  }
  table.total = add(end, ParameterTable::kAlignment - 1) / ParameterTable::kAlignment *
                ParameterTable::kAlignment;
  return table;
}

Placement Parameter::placement(TensorRank at) const {
  if (local_shape == shape) return {};
  const auto axis = shape.begin() + split.axis;
  const std::int64_t inner =
      std::accumulate(axis + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t period = *axis / split.sections * inner;
  const std::int64_t chunk =
      local_shape[static_cast<std::size_t>(split.axis)] / split.sections * inner;
  const std::int64_t begin = split.part_of(at) * chunk;
  return {chunk, period, begin, std::clamp(period - begin, std::int64_t{0}, chunk)};
}

// FNV-1a, 64 bits.
std::uint64_t Parameter::random_stream() const {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

Range ParameterTable::block(int number) const {
  const auto begin_of = [this](int wanted) {
    const auto first = std::partition_point(parameters.begin(), parameters.end(),
                                            [=](const Parameter& p) { return p.block < wanted; });
    return first == parameters.end() ? total : first->offset;
  };
  return {begin_of(number), begin_of(number + 1)};
}

std::vector<Range> ParameterTable::blocks() const {
  std::vector<Range> out;
  for (int number = 0; number < num_blocks(); ++number) out.push_back(block(number));
  return out;
}

const Parameter& ParameterTable::find(const std::string& name) const {
  for (const Parameter& p : parameters)
    if (p.name == name) return p;
  throw Error(ErrorKind::kInternal, fmt::format("the model has no parameter {}", name));
}

std::int64_t ParameterTable::vocabulary_rows() const {
  return find(0, Role::kTokens)->local_shape[0];
}

const Parameter* ParameterTable::find(int block, Role role) const {
  for (const Parameter& p : parameters)
    if (p.block == block && p.role == role) return &p;
  return nullptr;
}

}  // namespace hgt
