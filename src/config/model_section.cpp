// Section model: the names of HF's config.json, both GPT-2's and those of the other families.
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

// With these limits no product of the sizes of a model overflows.
constexpr double kMaxWidth = 1e6, kMaxLayers = 1e4;

std::vector<Field> sizes() {
  const In in{&Config::model};
  using M = ModelConfig;
  const auto size = [&](std::string name, std::int64_t M::*member, double largest, std::string help,
                        std::vector<std::string> aliases) {
    return used(std::move(name), in(member), std::move(help))
        .at_least(1)
        .at_most(largest)
        .aka(std::move(aliases));
  };
  return {
      used("vocab_size", in(&M::vocab_size), "default: the tokenizer's")
          .at_least(0)
          .at_most(kMaxSequenceLength)
          .auto_is("0")
          .aka({"padded_vocab_size"}),
      size("hidden_size", &M::hidden_size, kMaxWidth, "width", {"n_embd"}),
      size("intermediate_size", &M::intermediate_size, kMaxWidth,
           "width within the MLP; default for gpt2: 4 * hidden_size",
           {"n_inner", "ffn_hidden_size"}),
      size("num_hidden_layers", &M::num_hidden_layers, kMaxLayers, "layers",
           {"n_layer", "num_layers"}),
      size("num_attention_heads", &M::num_attention_heads, kMaxWidth, "heads of the queries",
           {"n_head"}),
      size("num_key_value_heads", &M::num_key_value_heads, kMaxWidth,
           "heads of keys and values; default, if none is named: num_attention_heads",
           {"num_query_groups"}),
      size("head_dim", &M::head_dim, kMaxWidth,
           "width of a head; default, if none is named: hidden_size / num_attention_heads",
           {"kv_channels"}),
      size("max_position_embeddings", &M::max_position_embeddings, kMaxSequenceLength,
           "longest sequence", {"n_positions", "n_ctx"}),
  };
}

std::vector<Field> numbers() {
  const In in{&Config::model};
  using M = ModelConfig;
  const auto dropout = [&](std::string name, double M::*member, std::string help) {
    return used(std::move(name), in(member), std::move(help)).at_least(0).at_most(0.999);
  };
  return {
      used("hidden_act", in(&M::hidden_act),
           fmt::format("activation of the MLP: {}; {} in families with a gate",
                       fmt::join(activations_of(family_of("gpt2")), ", "),
                       fmt::join(activations_of(family_of("llama")), ", ")))
          .aka({"activation_function"}),
      used("norm_eps", in(&M::norm_eps), "epsilon of LayerNorm or RMSNorm")
          .above(0)
          .at_most(1)
          .aka({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"}),
      used("initializer_range", in(&M::initializer_range), "deviation of the initial weights")
          .at_least(0)
          .at_most(100),
      dropout("embd_pdrop", &M::embd_pdrop, "dropout of the embedding"),
      dropout("resid_pdrop", &M::resid_pdrop, "dropout before each residual sum"),
      dropout("attn_pdrop", &M::attn_pdrop, "dropout of the attention weights")
          .aka({"attention_dropout"}),
      used("tie_word_embeddings", in(&M::tie_word_embeddings),
           "the head shares the embedding's weight"),
      used("attention_bias", in(&M::attention_bias),
           "bias of the attention's projections, unless the family decides"),
      used("mlp_bias", in(&M::mlp_bias),
           "bias of the MLP's projections, unless the family decides"),
      used("scale_attn_by_inverse_layer_idx", in(&M::scale_attn_by_inverse_layer_idx),
           "GPT-2: scores divided by the layer's number"),
      used("bos_token_id", in(&M::bos_token_id), "first token").at_least(0),
      used("eos_token_id", in(&M::eos_token_id), "last token").at_least(0),
  };
}

/// model_reader.cpp reads these keys together.
std::vector<Field> positions() {
  const auto whole = [](std::string name, Kind kind, std::string help) {
    Field out = ignored(std::move(name), kind, std::move(help));
    out.key_class = KeyClass::kUsed;
    return out;
  };
  Field window = whole("sliding_window", Kind::kInteger, "tokens that a query sees")
                     .at_least(1)
                     .at_most(kMaxSequenceLength);
  window.takes_null = true;
  return {
      window,
      whole("rope_theta", Kind::kNumber, "base of the rotary embedding")
          .above(0)
          .aka({"rotary_emb_base", "rotary_base"}),
      whole("rope_scaling", Kind::kAny,
            "scaling of the rotary embedding: linear, dynamic, llama3, yarn"),
      whole("rope_parameters", Kind::kAny,
            "rope_theta and rope_scaling in one, as transformers 5 writes them"),
      whole("use_sliding_window", Kind::kBool, "Qwen: whether there is a window"),
      whole("max_window_layers", Kind::kInteger, "Qwen: first layer with the window").at_least(0),
      whole("layer_types", Kind::kList, "Qwen: full_attention or sliding_attention, per layer"),
  };
}

/// Keys that would change the computation: only the value that does not change it is accepted.
std::vector<Field> neutral_only() {
  const auto only = [](std::string name, Kind kind, std::string neutral, std::string help) {
    Field out = refused(std::move(name), std::move(help), "only " + neutral + " is supported");
    out.kind = kind;
    return std::move(out).off_if(std::move(neutral));
  };
  std::vector<Field> out = {
      only("scale_attn_weights", Kind::kBool, "true",
           "scores not divided by the root of the head's width"),
      only("add_cross_attention", Kind::kBool, "false", "cross attention"),
      only("partial_rotary_factor", Kind::kNumber, "1.0",
           "rotary embedding of a part of each head"),
      only("quantization_config", Kind::kAny, "null", "quantised weights"),
      only("attn_logit_softcapping", Kind::kNumber, "null", "capped scores"),
      only("final_logit_softcapping", Kind::kNumber, "null", "capped logits"),
  };
  for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"})
    out.push_back(only(name, Kind::kInteger, "0", "mixture of experts"));
  return out;
}

/// Other keys of HF's files.
std::vector<Field> ignored_model_keys() {
  std::vector<Field> out;
  for (const char* name : {"architectures",
                           "dtype",
                           "torch_dtype",
                           "transformers_version",
                           "use_cache",
                           "pad_token_id",
                           "auto_map",
                           "pretraining_tp",
                           "summary_type",
                           "summary_use_proj",
                           "summary_activation",
                           "summary_proj_to_labels",
                           "summary_first_dropout",
                           "reorder_and_upcast_attn",
                           "task_specific_params",
                           "output_attentions",
                           "output_hidden_states",
                           "return_dict",
                           "id2label",
                           "label2id",
                           "problem_type",
                           "is_decoder",
                           "is_encoder_decoder",
                           "chunk_size_feed_forward",
                           "attn_implementation",
                           "unsloth_version",
                           "name_or_path"})
    out.push_back(ignored(name, Kind::kAny, "does not change the maths"));
  out.push_back(ignored("gradient_checkpointing", Kind::kAny, "see activation_checkpointing.mode"));
  return out;
}

/// Keys whose defaults depend on the family.
void leave_default_to_family(Field& field) {
  const bool is_size = field.kind == Kind::kInteger && field.min == 1;
  field.default_varies |= is_size || family_defaults(family_of("gpt2")).contains(field.name);
}

}  // namespace

Field model_section() {
  const In in{&Config::model};
  std::vector<Choice> types;
  for (const Family& family : families()) types.push_back({family.type});
  std::vector<Field> fields = {
      used("model_type", in(&ModelConfig::model_type), "family").one_of(std::move(types)),
      used("init", in(&ModelConfig::init), "HF model folder: architecture and initial weights"),
      ignored("config", Kind::kText, "HF config.json, or a folder with one"),
  };
  fields[0].default_varies = true;  // it must be given, here or by the folder of `init`
  fields[2].key_class = KeyClass::kUsed;
  for (auto make : {sizes, numbers, positions, neutral_only, ignored_model_keys})
    for (Field& field : make()) fields.push_back(std::move(field));
  for (Field& field : fields) leave_default_to_family(field);
  Field out =
      section("model", "the architecture, under the names of HF's config.json", std::move(fields));
  out.example =
      R"("model": {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024})";
  out.shorthand = [](const Json& value) {
    return value.is_string() ? Json{{"config", value}}.dump() : "";
  };
  return out;
}

}  // namespace hgt
