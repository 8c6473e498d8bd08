// Section model and HF's config.json: the meaning of a model's keys in combination.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/config/run_checkpoints.h"

#include "loading.h"
#include "rope.h"
#include "sections.h"
#include "value.h"

namespace hgt {
namespace {

std::ptrdiff_t count_errors(const Loading& loading) {
  return std::ranges::count(loading.result.problems, Severity::kError, &Problem::severity);
}

class ModelReader {
 public:
  explicit ModelReader(Loading& loading) : loading_(loading), model_(loading.config().model) {}

  void read() {
    const bool known = find_family();
    first_of_list("bos_token_id");
    first_of_list("eos_token_id");
    if (known) store_defaults();
    const auto errors = count_errors(loading_);
    for (const auto& [path, given] : loading_.given_keys)
      if (path.starts_with("model.") && (known || path != "model.model_type"))
        apply(given, loading_);
    if (!known || count_errors(loading_) > errors) return;
    derive_sizes();
    derive_flags();
    check_activation();
    if (family().rope) {
      read_positions();
      read_windows();
    }
    check_model(loading_);
  }

  /// Adds the keys of a model's own file to those of the config, which have priority.
  void add_file(const std::string& path, const std::string& named_by) {
    Loading file;
    try {
      const std::string folder = checkpoint_folder(path);
      if (const auto given = loading_.given_keys.find(named_by); given != loading_.given_keys.end())
        given->second.value = folder;
      require_model_config(folder);
      const std::string at = path.ends_with(".json") ? path : folder + "/config.json";
      const std::string text = read_file(at, kMaxConfigBytes, ErrorKind::kConfig);
      check_model_config(folder, text);
      file = parse(text, at);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::kData)
        throw;  // a damaged checkpoint is not an error in the config
      loading_.problem_at(Severity::kError, named_by, e.message(),
                          e.hint().empty() ? hint_for(named_by) : e.hint());
      is_unread_ = true;
      return;
    }
    if (!is_other_family(file, path, named_by)) add(std::move(file));
  }

  void add_text(const std::string& text, const std::string& name) { add(parse(text, name)); }

 private:
  static const char* hint_for(const std::string& key) {
    if (key != "model.init")
      return "hgtrain downloads nothing: name an HF config.json on this machine, or its folder";
    return "hgtrain downloads nothing: name a folder with config.json and model.safetensors, such "
           "as `huggingface-cli download NAME --local-dir FOLDER` makes";
  }

  static Loading parse(const std::string& text, const std::string& name) {
    Loading file;
    collect(read_document(text, name), *find_field("model"), "model.", Unknown::kIgnored, file);
    return file;
  }

  void add(Loading file) {
    for (Problem& problem : file.result.problems)
      loading_.result.problems.push_back(std::move(problem));
    const auto parameters = file.given_keys.find("model.rope_parameters");
    if (loading_.given("model.rope_theta") && parameters != file.given_keys.end() &&
        parameters->second.value.is_object())
      parameters->second.value.erase("rope_theta");
    loading_.given_keys.merge(file.given_keys);
    from_file_ = true;
  }

  /// Whether the config names another family than its weights have, which is one error instead of
  /// many about keys of the family.
  bool is_other_family(const Loading& file, const std::string& path, const std::string& named_by) {
    const Json* const ours = value("model_type");
    const auto theirs = file.given_keys.find("model.model_type");
    if (named_by != "model.init" || !ours || !ours->is_string() ||
        theirs == file.given_keys.end() || !theirs->second.value.is_string() ||
        lower(ours->get<std::string>()) == lower(theirs->second.value.get<std::string>()))
      return false;
    error("model_type",
          fmt::format("model.model_type = {}, but the weights in {} are those of a model with "
                      "model_type = {}",
                      ours->dump(), path, theirs->second.value.dump()),
          "leave it out, and the other keys of its family: model.init takes the architecture from "
          "its folder");
    return true;
  }

  /// A given value; nullptr if there is none.
  const Json* value(const std::string& name) const {
    const auto found = loading_.given_keys.find("model." + name);
    return found == loading_.given_keys.end() ? nullptr : &found->second.value;
  }

  void error(const std::string& name, std::string message, std::string hint = "") {
    loading_.problem_at(Severity::kError, "model." + name, std::move(message), std::move(hint));
  }

  bool find_family() {
    if (const Json* const type = value("model_type")) {
      const Value family = to_value(*find_field("model.model_type"), *type);
      if (family.problem.empty())
        model_.model_type = family.json;
      else  // similar names are no hint: Mixtral is not Mistral
        error("model_type", "model.model_type " + family.problem, "one of: " + family_types());
      return family.problem.empty();
    }
    const Json* const list = value("architectures");
    if (list && list->is_array() && !list->empty())
      for (const Family& family : families())
        if (list->front() == family.architecture) {
          model_.model_type = family.type;
          return true;
        }
    if (list)
      error("architectures", fmt::format("model.architectures = {} is not supported", list->dump()),
            "set model.model_type to " + family_types());
    else if (!is_unread_)
      error("config", "model.model_type is missing", "one of: " + family_types());
    return false;
  }

  /// Llama 3 has several tokens that end a text; the first one ends a document.
  void first_of_list(const std::string& name) {
    const auto found = loading_.given_keys.find("model." + name);
    if (found == loading_.given_keys.end()) return;
    Json& list = found->second.value;
    if (list.is_array() && !list.empty()) list = Json(list.front());
  }

  /// Without a file, vocabulary and special tokens are those of the data's tokenizer.
  void store_defaults() {
    const Json defaults = family_defaults(family());
    for (const auto& [name, value] : defaults.items())
      if (from_file_ || (name != "vocab_size" && !name.ends_with("_token_id")))
        store(find_field("model." + name)->slot(loading_.config()), value);
  }

  void derive(const std::string& name, std::int64_t& size, std::int64_t value, const char* from) {
    if (size > 0) return;
    size = value;
    loading_.set_origin("model." + name, OriginKind::kDerived, from);
  }

  void derive_sizes() {
    if (family().lineage == Lineage::kGpt2)
      derive("intermediate_size", model_.intermediate_size, 4 * model_.hidden_size,
             "4 * hidden_size");
    derive("num_key_value_heads", model_.num_key_value_heads, model_.num_attention_heads,
           "num_attention_heads");
    derive("head_dim", model_.head_dim, model_.hidden_size / model_.num_attention_heads,
           "hidden_size / num_attention_heads");
  }

  /// Sets what the family determines, in spite of the file (transformers' modeling_*.py).
  void derive_flags() {
    const auto has = [](Bias bias, bool key) {
      return bias == Bias::kAlways || (bias == Bias::kByKey && key);
    };
    const bool key = model_.attention_bias;
    model_.attention_bias = has(family().qkv_bias, key);
    model_.attention_out_bias = has(family().attention_out_bias, key);
    model_.mlp_bias = has(family().mlp_bias, model_.mlp_bias);
    model_.qk_norm = family().qk_norm;
    if (family().lineage == Lineage::kGpt2) return;
    model_.embd_pdrop = model_.resid_pdrop = 0;
    model_.scale_attn_by_inverse_layer_idx = false;
  }

  void check_activation() {
    const auto built = activations_of(family());
    model_.hidden_act = activation_name(model_.hidden_act);
    if (std::find(built.begin(), built.end(), model_.hidden_act) == built.end())
      error("hidden_act",
            fmt::format("model.hidden_act = \"{}\" is not supported for {}", model_.hidden_act,
                        model_.model_type),
            fmt::format("one of: {}", fmt::join(built, ", ")));
  }

  void read_positions() {
    if (const Json* theta = value("rope_theta")) model_.rope_theta = theta->get<double>();
    const Json* const scaling = value("rope_scaling");
    const std::string name = scaling && !scaling->empty() ? "rope_scaling" : "rope_parameters";
    try {
      if (const Json* parameters = value(name)) read_rope(*parameters, model_);
    } catch (const Error& e) {
      error(name, fmt::format("model.{}: {}", name, e.message()), e.hint());
    }
  }

  void read_windows() {
    const Json* const given = value("sliding_window");
    std::int64_t window = !given ? 4096 : given->is_null() ? 0 : given->get<std::int64_t>();
    const Json* const use = value("use_sliding_window");
    const Windows windows = family().windows;
    if (windows == Windows::kByLayer && !(use && use->get<bool>())) window = 0;
    const auto layers = static_cast<std::size_t>(model_.num_hidden_layers);
    model_.layer_windows.assign(layers, windows == Windows::kAllLayers ? window : 0);
    if (windows != Windows::kByLayer) return;
    if (const Json* types = value("layer_types")) return read_layer_types(*types, window);
    const Json* const first = value("max_window_layers");
    for (std::size_t layer = first ? first->get<std::size_t>() : 28; layer < layers; ++layer)
      model_.layer_windows[layer] = window;
  }

  void read_layer_types(const Json& types, std::int64_t window) {
    if (types.size() != model_.layer_windows.size())
      return error("layer_types", fmt::format("model.layer_types names {} layers of {}",
                                              types.size(), model_.layer_windows.size()));
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      const bool slides = types[layer] == "sliding_attention";
      if (!slides && types[layer] != "full_attention")
        return error("layer_types",
                     fmt::format("model.layer_types: {} is not supported", types[layer].dump()),
                     "full_attention or sliding_attention");
      if (slides && window == 0)
        return error("layer_types",
                     "model.layer_types has layers with sliding attention, but no window is set",
                     "set model.use_sliding_window to true, and model.sliding_window");
      model_.layer_windows[layer] = slides ? window : 0;
    }
  }

  const Family& family() const { return family_of(model_); }

  Loading& loading_;
  ModelConfig& model_;
  bool from_file_ = false;
  bool is_unread_ = false;  ///< a file is named but not read; it may have the missing keys
};

/// A model that only a file describes; `add` passes the file to the reader.
template <class Add>
ModelConfig read_alone(const Add& add) {
  Loading loading;
  ModelReader reader(loading);
  add(reader);
  reader.read();
  loading.result.throw_errors();
  return loading.config().model;
}

/// Keys in which a model may differ from the folder of its weights.
constexpr std::array kFreeOfWeights{
    "embd_pdrop",        "resid_pdrop",  "attn_pdrop",   "attention_dropout",
    "initializer_range", "bos_token_id", "eos_token_id", "max_position_embeddings"};

/// Whether the job has this key of a model, in any of its spellings.
const Given* given_of(const std::map<std::string, Given>& job, const std::string& key) {
  for (const auto& [path, given] : job)
    if (path == "model." + key || std::ranges::count(given.field->aliases, key) > 0) return &given;
  return nullptr;
}

/// Refuses settings of another model with the same shapes: the weights belong to one. `job` has the
/// keys next to model.init.
void check_weights_model(const std::map<std::string, Given>& job, const std::string& folder,
                         Loading& loading) {
  const Json wanted = hf_config_json(loading.config().model),
             there = hf_config_json(read_hf_config(folder));
  std::vector<std::pair<const Given*, std::string>> differences;
  for (const auto& [key, value] : wanted.items())
    if (std::ranges::find(kFreeOfWeights, key) == kFreeOfWeights.end() &&
        (!there.contains(key) || there[key] != value))
      differences.emplace_back(
          given_of(job, key),
          fmt::format("model.{} = {}, but the weights in {} are those of a model with {}", key,
                      value.dump(), folder,
                      there.contains(key) ? fmt::format("{} = {}", key, there[key].dump())
                                          : fmt::format("no {}", key)));
  const bool any_given =
      std::ranges::any_of(differences, [](const auto& d) { return d.first != nullptr; });
  for (const auto& [given, message] : differences)
    if (given || !any_given)
      loading.problem(Severity::kError, given ? given->place : Place{}, message,
                      "leave it out: model.init takes the architecture from its folder");
}

bool has_model(const Loading& loading) {
  const auto at = loading.given_keys.lower_bound("model.");
  return at != loading.given_keys.end() && at->first.starts_with("model.");
}

}  // namespace

void resolve_model(Loading& loading, bool reads_files) {
  if (!has_model(loading)) {
    loading.problem(Severity::kMissing, {}, "the section model is missing",
                    "for example " + find_field("model")->example);
    return;
  }
  ModelReader reader(loading);
  const bool config = loading.given("model.config"), init = loading.given("model.init");
  if (config && init)
    loading.problem_at(Severity::kError, "model.config",
                       "model.config and model.init are both given",
                       "model.init takes the architecture from its folder: remove model.config");
  const std::map<std::string, Given> job = loading.given_keys;
  const auto errors = count_errors(loading);
  for (const char* name : {"model.config", "model.init"})
    if (const auto given = loading.given_keys.find(name);
        reads_files && given != loading.given_keys.end() && given->second.value.is_string())
      reader.add_file(given->second.value, name);
  reader.read();
  if (init && !config && reads_files && count_errors(loading) == errors)
    check_weights_model(job, loading.config().model.init, loading);
}

ModelConfig read_hf_config(const std::string& path) {
  return read_alone([&](ModelReader& reader) { reader.add_file(path, "model.config"); });
}

ModelConfig parse_hf_config(const std::string& text, const std::string& name) {
  return read_alone([&](ModelReader& reader) { reader.add_text(text, name); });
}

void check_model(Loading& loading) {
  const ModelConfig& m = loading.config().model;
  const auto error = [&](const char* name, std::string message, std::string hint = "") {
    loading.problem_at(Severity::kError, std::string("model.") + name, std::move(message),
                       std::move(hint));
  };
  const auto key = [&](const char* name) { return loading.model_key(name); };
  if (m.num_attention_heads % m.num_key_value_heads != 0)
    error("num_key_value_heads",
          fmt::format("model.num_key_value_heads = {} does not divide {} = {}",
                      m.num_key_value_heads, key("num_attention_heads"), m.num_attention_heads));
  const auto origin = loading.origins.find("model.head_dim");
  const bool derived =
      origin != loading.origins.end() && origin->second.kind == OriginKind::kDerived;
  const bool gpt2 = family_of(m).lineage == Lineage::kGpt2,
             covers = m.head_dim * m.num_attention_heads == m.hidden_size;
  if (derived && !covers)
    error("num_attention_heads",
          fmt::format("model.{} = {} does not divide {} = {}", key("num_attention_heads"),
                      m.num_attention_heads, key("hidden_size"), m.hidden_size));
  else if (gpt2 && !covers)
    error("head_dim",
          fmt::format("model.head_dim = {}, but GPT-2's {} heads share n_embd = {}: leave "
                      "head_dim out",
                      m.head_dim, m.num_attention_heads, m.hidden_size));
  else if (!gpt2 && m.head_dim % 2 != 0)
    error("head_dim", fmt::format("model.head_dim = {} is odd, but a rotary embedding needs pairs",
                                  m.head_dim));
  if (gpt2 && m.num_key_value_heads != m.num_attention_heads)
    error("num_key_value_heads", "GPT-2 has as many key and value heads as query heads");
}

}  // namespace hgt
