#include <algorithm>

#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/load.h"

#include "field.h"
#include "value.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// The filled keys of a section, without those that are absent.
Json written(const Field& table, Config& config, const std::string& type) {
  Json out = Json::object();
  for (const Field& field : table.fields) {
    if (!goes_with(field, type)) continue;
    if (!field.fields.empty()) {
      const char* const absent = config.scheduler.type.empty() ? "scheduler" : "lr_schedule";
      if (field.name == absent) continue;
      Json section = written(field, config, type_below(field, config, type));
      if (!section.empty()) out[field.name] = std::move(section);
    } else if (field.slot) {
      Json value = load(field, config);
      if (!value.is_null() && value != Json::array()) out[field.name] = std::move(value);
    }
  }
  return out;
}

/// "a.b.c" as "/a/b/c"
Json::json_pointer pointer_of(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return Json::json_pointer("/" + path);
}

}  // namespace

void keep_not_built(const LoadResult& given, Json& json) {
  const auto is_model = [](const KeyReport& key) { return key.path.starts_with("model."); };
  if (std::none_of(given.keys.begin(), given.keys.end(),
                   [&](const KeyReport& key) { return key.given && is_model(key); }))
    json.erase("model");
  for (const KeyReport& key : given.keys) {
    // There are no rows for the parameters of a type that is not built.
    const bool parameter =
        key.key_class == KeyClass::kIgnored && key.given &&
        (key.path.starts_with("optimizer.params.") || key.path.starts_with("scheduler.params.")) &&
        !find_field(key.path);
    if (key.switched_on || parameter) json[pointer_of(key.path)] = parse_json<Json>(key.value);
  }
}

void keep_auto(const LoadResult& given, std::string_view prefix, Json& json) {
  for (const KeyReport& key : given.keys)
    if (key.given_auto && key.path.starts_with(prefix) && json.contains(pointer_of(key.path)))
      json[pointer_of(key.path)] = "auto";
}

void leave_out_derived(const LoadResult& given, std::string_view prefix, Json& json) {
  for (const KeyReport& key : given.keys) {
    if (key.origin.kind != OriginKind::kDerived || key.given || !key.path.starts_with(prefix))
      continue;
    const Json::json_pointer pointer = pointer_of(key.path);
    if (json.contains(pointer)) json[pointer.parent_pointer()].erase(pointer.back());
  }
}

void leave_out_unread(Json& json) {
  if (!json.contains("model")) return;
  for (const Field& field : find_field("model")->fields)
    if (field.key_class == KeyClass::kIgnored) json["model"].erase(field.name);
}

Json to_json(const Config& config) {
  Config copy = config;  // slots need a Config that is not const
  Json out = written(root_section(), copy, "");
  for (const char* size :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})
    if (out[size] == 0) out.erase(size);  // not known
  if (config.elasticity.max_train_batch_size == 0) out["elasticity"].erase("max_train_batch_size");
  out["model"] = hf_config_json(config.model);
  if (!config.model.init.empty()) out["model"]["init"] = config.model.init;
  if (config.training.train_iters > 0)
    for (const char* other : {"train_samples", "num_epochs"}) out["training"].erase(other);
  return out;
}

}  // namespace hgt
