#include "field.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

/// The kind of value that a slot holds.
struct SlotKind {
  Kind operator()(std::monostate) const { return Kind::kAny; }
  Kind operator()(const bool*) const { return Kind::kBool; }
  Kind operator()(const std::int64_t*) const { return Kind::kInteger; }
  Kind operator()(const double*) const { return Kind::kNumber; }
  Kind operator()(const std::string*) const { return Kind::kText; }
  Kind operator()(const NamedNumber&) const { return Kind::kNumber; }
  Kind operator()(const NumberPair&) const { return Kind::kList; }
  Kind operator()(const std::optional<double>*) const { return Kind::kNumber; }
  Kind operator()(const std::optional<std::int64_t>*) const { return Kind::kInteger; }
  Kind operator()(const std::vector<DataSource>*) const { return Kind::kAny; }
  Kind operator()(const std::vector<std::int64_t>*) const { return Kind::kList; }
};

Kind kind_of(const SlotOf& slot_of) {
  Config config;
  return std::visit(SlotKind(), slot_of(config));
}

bool same_name(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

bool same_key(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '-' ? '_' : x) == (y == '-' ? '_' : y); });
}

bool Field::takes_false() const {
  return may_be_false || find_row(*this, "enabled") != nullptr;
}

Field Field::aka(std::vector<std::string> names) && {
  aliases = std::move(names);
  return std::move(*this);
}

Field Field::one_of(std::vector<Choice> list) && {
  choices = std::move(list);
  return std::move(*this);
}

Field Field::others_are(std::string choice) && {
  other_choice = std::move(choice);
  return std::move(*this);
}

Field Field::at_least(double value) && {
  min = value;
  return std::move(*this);
}

Field Field::at_most(double value) && {
  max = value;
  return std::move(*this);
}

Field Field::above(double value) && {
  min = value;
  above_min = true;
  return std::move(*this);
}

Field Field::as_integer() && {
  kind = Kind::kInteger;
  return std::move(*this);
}

Field Field::elements() && {
  kind = Kind::kInteger;
  min = 0;
  floors = true;
  return std::move(*this);
}

Field Field::auto_is(std::string json, std::string reason) && {
  auto_value = std::move(json);
  auto_reason = std::move(reason);
  return std::move(*this);
}

Field Field::auto_derived() && {
  auto_is_derived = true;
  return std::move(*this);
}

Field Field::instead(std::string text) && {
  hint = std::move(text);
  return std::move(*this);
}

Field Field::defaults_to(std::string json) && {
  default_json = std::move(json);
  return std::move(*this);
}

Field Field::off_if(std::string json) && {
  off_json = std::move(json);
  return std::move(*this);
}

Field Field::only(std::vector<std::string> types) && {
  only_for = std::move(types);
  return std::move(*this);
}

Field Field::from_stage(int stage) && {
  zero_stage = stage;
  return std::move(*this);
}

Field used(std::string name, SlotOf slot, std::string help) {
  Field field;
  field.name = std::move(name);
  field.kind = kind_of(slot);
  field.help = std::move(help);
  field.slot = std::move(slot);
  return field;
}

Field ignored(std::string name, Kind kind, std::string help) {
  Field field;
  field.name = std::move(name);
  field.kind = kind;
  field.key_class = KeyClass::kIgnored;
  field.help = std::move(help);
  return field;
}

Field not_built(std::string name, Kind kind, std::string off, std::string help) {
  Field field = ignored(std::move(name), kind, std::move(help));
  field.key_class = KeyClass::kNotBuilt;
  field.off_json = std::move(off);
  return field;
}

Field refused(std::string name, std::string help, std::string hint) {
  Field field = ignored(std::move(name), Kind::kAny, std::move(help));
  field.key_class = KeyClass::kError;
  field.hint = std::move(hint);
  return field;
}

Field section(std::string name, std::string help, std::vector<Field> fields) {
  Field field;
  field.name = std::move(name);
  field.kind = Kind::kObject;
  field.help = std::move(help);
  field.fields = std::move(fields);
  return field;
}

Field moved(std::string name, Kind kind, std::string path) {
  Field field = ignored(std::move(name), kind, "the same as " + path);
  field.key_class = KeyClass::kUsed;
  field.moves = [path = std::move(path)](const nlohmann::ordered_json&) {
    return std::vector<Moved>{{path, ""}};
  };
  return field;
}

const Field* find_row(const Field& table, std::string_view name, const std::string& type) {
  for (const Field& field : table.fields)
    if (goes_with(field, type) &&
        (same_key(field.name, name) ||
         std::any_of(field.aliases.begin(), field.aliases.end(),
                     [&](const std::string& alias) { return same_key(alias, name); })))
      return &field;
  return nullptr;
}

bool is_off(const Field& field, const nlohmann::ordered_json& value) {
  if (field.off_json.empty()) return false;
  const auto off = parse_json<nlohmann::ordered_json>(field.off_json);
  return field.kind == Kind::kInteger ? value <= off : value == off;
}

std::vector<std::string> paths_of(std::string_view name, const Field& table,
                                  const std::string& prefix) {
  std::vector<std::string> out;
  const Field* const own = find_row(table, name);
  if (own && own->fields.empty() && own->key_class == KeyClass::kUsed && !own->moves)
    out.push_back(prefix + own->name);
  for (const Field& field : table.fields)
    for (std::string& path : paths_of(name, field, prefix + field.name + "."))
      out.push_back(std::move(path));
  return out;
}

bool goes_with(const Field& field, const std::string& type) {
  return field.only_for.empty() || type.empty() ||
         std::any_of(field.only_for.begin(), field.only_for.end(),
                     [&](const std::string& name) { return same_name(name, type); });
}

std::string type_below(const Field& section, const Config& config, const std::string& inherited) {
  if (section.name == "optimizer") return config.optimizer.type;
  if (section.name == "lr_schedule") return config.training.lr_schedule.type;
  if (section.name != "scheduler") return inherited;
  return config.scheduler.type.empty() ? "none" : config.scheduler.type;
}

const Field& root_section() {
  static const Field root = section("", "", all_sections());
  return root;
}

const Field* find_field(const std::string& path, const std::string& type) {
  const Field* at = &root_section();
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    const std::string name = path.substr(start, end - start);
    const auto found = std::find_if(at->fields.begin(), at->fields.end(), [&](const Field& field) {
      return field.name == name && goes_with(field, type);
    });
    if (found == at->fields.end()) return nullptr;
    at = &*found;
    start = end + 1;
  }
  return at;
}

}  // namespace hgt
