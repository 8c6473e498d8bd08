#include <nlohmann/json.hpp>

#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/load.h"

#include "field.h"
#include "value.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// The filled keys of a section; those that stand for "absent" are left out.
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

}  // namespace

Json to_json(const Config& config) {
  Config copy = config;  // slots are made for writing
  Json out = written(root_section(), copy, "");
  out["model"] = hf_config_json(config.model);
  if (!config.model.init.empty()) out["model"]["init"] = config.model.init;
  if (config.training.train_iters > 0)
    for (const char* other : {"train_samples", "num_epochs"}) out["training"].erase(other);
  return out;
}

}  // namespace hgt
