#include "hgtrain/config/schema.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

#include "field.h"
#include "value.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

std::string description(const Field& field) {
  const char* const mark = field.key_class == KeyClass::kNotBuilt  ? "(not built yet) "
                           : field.key_class == KeyClass::kIgnored ? "(no effect) "
                                                                   : "";
  return mark + field.help;
}

const char* type_name(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return "boolean";
    case Kind::kInteger:
      return "integer";
    case Kind::kNumber:
      return "number";
    case Kind::kText:
      return "string";
    case Kind::kList:
      return "array";
    case Kind::kObject:
      return "object";
    case Kind::kAny:
      break;
  }
  return nullptr;
}

/// Writes 1, not 1.0.
Json number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? Json(static_cast<std::int64_t>(value))
             : Json(value);
}

Json object_schema(const Field& table);

/// A pattern of the words in upper or lower case, as configs may spell them.
std::string in_any_case(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += out.empty() ? "^(" : "|";
    for (const char c : word)
      out += std::isalpha(static_cast<unsigned char>(c)) != 0
                 ? fmt::format("[{}{}]", static_cast<char>(std::toupper(c)),
                               static_cast<char>(std::tolower(c)))
                 : std::string(1, c);
  }
  return out + ")$";
}

/// The schemas of which a value must satisfy one. Every key may be null, which counts as absent.
std::vector<Json> value_schemas(const Field& field) {
  std::vector<Json> out;
  if (!field.choices.empty()) {
    Json named = {{"enum", Json::array()}};
    for (const Choice& choice : field.choices) {
      if (choice.key_class != KeyClass::kError) named["enum"].push_back(choice.name);
      if (choice.key_class != KeyClass::kUsed)
        named["x-choices"][choice.name] = name_of(choice.key_class);
    }
    const std::string pattern = in_any_case(named["enum"].get<std::vector<std::string>>());
    out = {named, {{"type", "string"}, {"pattern", pattern}}};
  }
  Json value = Json::object();
  if (const char* type = type_name(field.kind)) value["type"] = Json::array({type, "null"});
  if (field.kind == Kind::kText && !field.choices.empty()) value["type"] = "null";
  const bool numeric = field.kind == Kind::kInteger || field.kind == Kind::kNumber;
  if (numeric && std::isfinite(field.min))
    value[field.above_min ? "exclusiveMinimum" : "minimum"] = number(field.min);
  if (numeric && std::isfinite(field.max)) value["maximum"] = number(field.max);
  out.push_back(std::move(value));
  return out;
}

Json section_schema(const Field& field) {
  Json out = object_schema(field);
  out["type"] = Json::array({"object", "null"});
  if (field.takes_false()) {
    out["type"].push_back("boolean");
    out["not"] = {{"const", true}};
  }
  return out;
}

/// The types of values that may replace the section.
Json shorthand_schema(const Field& field) {
  Json types = Json::array();
  for (const Json& sample : {Json("text"), Json(true), Json::array({"text"})})
    if (!field.shorthand(sample).empty())
      types.push_back(sample.is_string() ? "string" : sample.is_boolean() ? "boolean" : "array");
  return {{"type", types}};
}

Json schema_of(const Field& field) {
  std::vector<Json> any =
      field.fields.empty() ? value_schemas(field) : std::vector<Json>{section_schema(field)};
  if (!field.refuses_auto && (!field.auto_value.empty() || field.auto_is_derived))
    any.push_back({{"const", "auto"}});
  if (field.shorthand) any.push_back(shorthand_schema(field));
  Json out = any.size() == 1 ? any.front() : Json::object({{"anyOf", any}});
  out["description"] = description(field);
  if (field.fields.empty()) out["x-class"] = name_of(field.key_class);
  if (const Json value = default_of(field); !value.is_null() && value != Json::array())
    out["default"] = value;
  return out;
}

/// Rows of one name (for several optimizers) count once; aliases point at the name. Unknown
/// keys are refused here even if DeepSpeed ignores them, so that an editor marks them.
Json object_schema(const Field& table) {
  Json properties = Json::object();
  for (const Field& field : table.fields) {
    if (properties.contains(field.name)) continue;
    Json schema = schema_of(field);
    for (const std::string& alias : field.aliases) {
      properties[alias] = schema;
      properties[alias]["description"] = "the same as " + field.name;
      properties[alias]["deprecated"] = true;
    }
    properties[field.name] = std::move(schema);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"patternProperties", {{"^([_$#]|//|comments?$)", Json::object()}}},
          {"additionalProperties", false}};
}

/// The default of a model's key by family. Without a file, vocabulary and special tokens are those
/// of the data; sizes without a default follow from others.
void add_family_defaults(Json& keys) {
  for (const Family& family : families()) {
    const Json defaults = family_defaults(family);
    for (const auto& [name, value] : defaults.items())
      if (name != "vocab_size" && !name.ends_with("_token_id"))
        keys[name]["x-defaults"][family.type] = value;
  }
  for (const Field& field : find_field("model")->fields) {
    Json& key = keys[field.name];
    if (!key.contains("x-defaults") || field.kind == Kind::kInteger) continue;
    Config config;
    for (const Family& family : families())
      if (!key["x-defaults"].contains(family.type))
        key["x-defaults"][family.type] = load(field, config);
  }
}

template <class Visit>
void each_key(const Field& table, const std::string& prefix, const Visit& visit) {
  for (const Field& field : table.fields)
    if (!field.fields.empty())
      each_key(field, prefix + field.name + ".", visit);
    else
      visit(field, prefix + field.name);
}

}  // namespace

const char* name_of(KeyClass key_class) {
  switch (key_class) {
    case KeyClass::kUsed:
      return "used";
    case KeyClass::kIgnored:
      return "ignored";
    case KeyClass::kNotBuilt:
      return "not_built";
    case KeyClass::kError:
      return "error";
  }
  return "";
}

Json config_schema() {
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "hgtrain config"},
              {"description", "A DeepSpeed config with the sections that hgtrain adds"}};
  out.update(object_schema(root_section()));
  add_family_defaults(out["properties"]["model"]["anyOf"][0]["properties"]);
  return out;
}

std::string config_keys_text(bool all) {
  std::string out;
  each_key(root_section(), "", [&](const Field& field, const std::string& path) {
    if (!all && field.key_class != KeyClass::kUsed) return;
    const Json value = default_of(field);
    out += fmt::format(
        "{:46} {:10} {}{}\n", path, value.is_null() ? "" : value.dump(), description(field),
        field.only_for.empty() ? "" : fmt::format(" [{}]", fmt::join(field.only_for, ", ")));
  });
  return out;
}

std::vector<std::string> config_key_paths() {
  std::vector<std::string> out;
  each_key(root_section(), "", [&](const Field& field, const std::string& path) {
    if (field.key_class == KeyClass::kUsed) out.push_back(path);
  });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<std::string> config_paths_of(std::string_view name) {
  std::vector<std::string> out = paths_of(name, root_section());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_toplevel_key(std::string_view name) {
  for (const Field& field : root_section().fields)
    if (field.fields.empty() &&
        (field.kind != Kind::kAny || field.key_class != KeyClass::kIgnored) &&
        (field.name == name ||
         std::find(field.aliases.begin(), field.aliases.end(), name) != field.aliases.end()))
      return true;
  return false;
}

bool is_switch(const std::string& path) {
  const Field* const field = find_field(path);
  return field && field->kind == Kind::kBool;
}

bool is_section(std::string_view name) {
  const Field* const field = find_field(std::string(name));
  return field && !field->fields.empty();
}

}  // namespace hgt
