// Made from the table: every key that is used has an effect that can be seen in the resolved
// config.
#include "field.h"

#include <set>

#include "hgtrain/base/file.h"

#include "loaded.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

namespace {

/// Configs that between them have every key in force.
std::vector<Json> baselines() {
  const Json gpt2 = {{"model_type", "gpt2"},
                     {"hidden_size", 48},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"max_position_embeddings", 64}};
  Json llama = gpt2, mistral = gpt2, qwen2 = gpt2;
  llama.update({{"model_type", "llama"}, {"intermediate_size", 96}});
  mistral.update({{"model_type", "mistral"}, {"num_key_value_heads", 4}});
  qwen2.update({{"model_type", "qwen2"},
                {"num_key_value_heads", 4},
                {"use_sliding_window", true},
                {"sliding_window", 8},
                {"max_window_layers", 1}});
  const auto config = [](Json model, Json optimizer, Json scheduler) {
    return Json{{"train_micro_batch_size_per_gpu", 2},
                {"model", model},
                {"optimizer", optimizer},
                {"scheduler", scheduler},
                {"data", "a"},
                {"training", {{"train_iters", 10}, {"eval_interval", 5}}}};
  };
  const Json cycle = {{"type", "OneCycle"},
                      {"params", {{"cycle_min_lr", 0.1}, {"cycle_max_lr", 0.2}}}};
  std::vector<Json> out = {config(gpt2, {{"type", "Adam"}}, {{"type", "WarmupLR"}}),
                           config(llama, {{"type", "AdamW"}}, {{"type", "WarmupDecayLR"}}),
                           config(mistral, {{"type", "AdamW"}}, {{"type", "WarmupCosineLR"}}),
                           config(qwen2, {{"type", "AdamW"}}, cycle),
                           config(qwen2, {{"type", "AdamW"}}, {{"type", "LRRangeTest"}})};
  out[0]["bf16"] = {{"bf16_master_weights_and_grads", true}};
  out[4]["training"].erase("train_iters");
  out[4]["model"].erase("use_sliding_window");
  const Json momentum = {{"type", "SGD"}, {"params", {{"momentum", 0.9}}}};
  for (const Json& optimizer : {momentum, Json{{"type", "Lamb"}}}) {
    out.push_back(config(gpt2, optimizer, nullptr));
    out.back()["training"]["lr_schedule"] = {{"type", "wsd"}};
  }
  for (const Json& schedule :
       {Json{{"pipeline_schedule", "interleaved"}, {"virtual_pipeline_stages", 2}},
        Json::object()}) {
    out.push_back(config(gpt2, {{"type", "AdamW"}}, nullptr));
    out.back()["model"]["num_hidden_layers"] = 5;
    out.back()["parallelism"] = {{"pipeline_parallel_size", 2}};
    out.back()["parallelism"].update(schedule);
  }
  out.push_back(config(gpt2, {{"type", "AdamW"}}, nullptr));
  out.back().erase("train_micro_batch_size_per_gpu");
  out.back()["elasticity"] = {{"max_train_batch_size", 32}, {"micro_batch_sizes", {2}}};
  return out;
}

/// Values that might be valid and other than what is there.
std::vector<Json> candidates(const Field& field, const std::string& path,
                             const std::string& folder) {
  if (path == "model.config" || path == "model.init") return {folder};
  if (path == "model.rope_scaling") return {Json{{"type", "linear"}, {"factor", 2.0}}};
  if (path == "model.rope_parameters") return {Json{{"rope_type", "default"}, {"rope_theta", 5e5}}};
  if (path == "model.layer_types") return {Json{"sliding_attention", "sliding_attention"}};
  if (path == "data.split") return {"90,10"};
  if (path == "model.hidden_act") return {"relu"};
  std::vector<Json> out;
  for (const Choice& choice : field.choices) out.push_back(choice.name);
  switch (field.kind) {
    case Kind::kBool:
      return {true, false};
    case Kind::kInteger:
      return {3, 2, 24, 96, 1, 7, 0};
    case Kind::kNumber:
      return {0.25, 0.5, 3, 1e-6};
    case Kind::kList:
      return {Json{0.5, 0.6}, Json{2, 3}};
    case Kind::kAny:
      return {"other"};
    default:
      break;
  }
  out.push_back("other");
  return out;
}

/// Sections of the resolved config that a key changes in a baseline, by name.
std::set<std::string> effects(const Json& baseline, const std::string& path, const Json& sample) {
  const LoadResult before = loaded(baseline.dump(), std::nullopt);
  const LoadResult after =
      loaded(baseline.dump(), std::nullopt,
             {path, sample.is_string() ? sample.get<std::string>() : sample.dump()});
  if (after.has(Severity::kError) || after.has(Severity::kNotBuilt)) return {};
  std::set<std::string> out;
  for (const Json& change : Json::diff(to_json(before.config), to_json(after.config))) {
    const std::string pointer = change["path"];
    out.insert(pointer.substr(1, pointer.find('/', 1) - 1));
  }
  return out;
}

/// Where a key's effect shows.
std::string expected_effect(const Field& field, const std::string& path) {
  if (field.moves && !field.slot) return "any";
  return path.substr(0, path.find('.'));
}

template <class Visit>
void each_used(const Field& table, const std::string& prefix, const Visit& visit) {
  for (const Field& field : table.fields)
    if (!field.fields.empty())
      each_used(field, prefix + field.name + ".", visit);
    else if (field.key_class == KeyClass::kUsed)
      visit(field, prefix + field.name);
}

}  // namespace

TEST_CASE("every used key changes its slot") {
  const TemporaryFolder folder;
  write_new_file(
      folder / "config.json",
      R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64})");
  const std::vector<Json> configs = baselines();
  int keys = 0;
  each_used(root_section(), "", [&](const Field& field, const std::string& path) {
    const std::string effect = expected_effect(field, path);
    ++keys;
    bool seen = false;
    for (const Json& config : configs)
      for (const Json& sample : candidates(field, path, folder.path())) {
        if (seen) break;
        const std::set<std::string> changed = effects(config, path, sample);
        seen = effect == "any" ? !changed.empty() : changed.count(effect) > 0;
      }
    INFO(path << " changes nothing in " << effect);
    CHECK(seen);
  });
  CHECK(keys > 80);
}

TEST_CASE("rows are found by path, and by type if there are several") {
  CHECK(find_field("optimizer.params.lr")->name == "lr");
  CHECK(find_field("scheduler.params.warmup_max_lr", "WarmupDecayLR")->default_json == "0.001");
  CHECK(find_field("scheduler.params.warmup_max_lr", "warmuplr")->default_json == "");
  CHECK(find_field("optimizer.params.none") == nullptr);
  CHECK(find_field("none") == nullptr);
}

TEST_CASE("names and aliases of a section do not collide") {
  const std::function<void(const Field&)> check = [&](const Field& table) {
    std::set<std::string> names, aliases;
    for (const Field& field : table.fields) {
      names.insert(field.name);
      if (!field.fields.empty()) check(field);
    }
    for (const Field& field : table.fields)
      if (field.only_for.empty())
        for (const std::string& alias : field.aliases) {
          INFO(table.name << ": " << alias);
          CHECK(names.count(alias) == 0);
          CHECK(aliases.insert(alias).second);
        }
  };
  check(root_section());
}
