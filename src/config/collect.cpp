#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/foreign_keys.h"

#include "loading.h"

namespace hgt {
namespace {

/// False if `table` has rows for some types, but none for this one.
bool knows_type(const Field& table, const std::string& type) {
  bool typed = false;
  for (const Field& field : table.fields) {
    if (field.only_for.empty()) continue;
    if (goes_with(field, type)) return true;
    typed = true;
  }
  return !typed;
}

bool is_comment(const std::string& key) {
  return key.empty() || key.starts_with('_') || key.starts_with('$') || key.starts_with('#') ||
         key.starts_with("//") || key == "comment" || key == "comments";
}

std::vector<std::string> names_of(const Field& table, const std::string& type, bool with_aliases) {
  std::vector<std::string> names;
  for (const Field& field : table.fields) {
    if (!goes_with(field, type) || std::ranges::count(names, field.name) > 0) continue;
    names.push_back(field.name);
    if (with_aliases) names.insert(names.end(), field.aliases.begin(), field.aliases.end());
  }
  return names;
}

/// "warmup_num_steps" has the words of "warmup_steps". A single word is not enough.
bool has_words_of(const std::string& name, const std::string& key) {
  if (key.find('_') == std::string::npos || key.size() > name.size()) return false;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t end = std::min(key.find('_', start), key.size());
    if (fmt::format("_{}_", name).find(fmt::format("_{}_", key.substr(start, end - start))) ==
        std::string::npos)
      return false;
    start = end + 1;
  }
  return true;
}

std::string meant_by(const std::string& key, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (has_words_of(name, key)) return name;
  return nearest(key, names);
}

constexpr std::size_t kMaxLetters = 100;  ///< longest key that may be a path
constexpr int kMaxHints = 100;            ///< how many unknown keys get a hint

/// All names of a short section, or the few names of a long one that are nearest to `key`.
std::string overview(const std::string& key, std::vector<std::string> names) {
  constexpr std::size_t kMaxNames = 24, kFew = 3, kAnyDistance = 100;
  if (names.size() <= kMaxNames) return fmt::format("its keys are: {}", fmt::join(names, ", "));
  std::vector<std::string> few;
  while (few.size() < kFew) {
    few.push_back(nearest(key, names, kAnyDistance));
    if (few.back().empty()) return "`hgtrain config schema --text` lists its keys";
    std::erase(names, few.back());
  }
  return fmt::format("the nearest are {}; `hgtrain config schema --text` lists all",
                     fmt::join(few, ", "));
}

/// Whether the value switches off what a key of another program would do.
bool asks_for_nothing(const Json& value) {
  if (value.is_object())
    return value.empty() || (value.contains("enabled") && value["enabled"] == false) ||
           (value.contains("device") && value["device"] == "none");
  return value == false || value.is_null();
}

/// The same for a key of the section parallelism: a size of 1 splits nothing.
bool splits_nothing(const Json& value) {
  return asks_for_nothing(value) || value == 0 || value == 1 || value == "auto";
}

/// The path of a key that is given outside its section, or in another one; "" if it is not the key
/// of one section alone.
std::string path_elsewhere(const std::string& key) {
  const std::vector<std::string> paths = paths_of(key, root_section());
  return paths.size() == 1 ? paths.front() : "";
}

/// The path of a key that was given outside any section but would change the training in its own
/// section.
std::string path_from_top(const std::string& key) {
  if (key == "type") return "";
  for (const char* section : {"training", "optimizer.params", "scheduler.params"})
    for (std::string& path : paths_of(key, *find_field(section), section + std::string(".")))
      return std::move(path);
  const Field* const split = find_row(*find_field("parallelism"), key);
  return split ? "parallelism." + split->name : "";
}

class Walk {
 public:
  Walk(const Document& document, Unknown unknown, Loading& loading)
      : document_(document), unknown_(unknown), loading_(loading) {}

  /// `type` is the type in the object or next to it, for tables that depend on it.
  void object(const Json& object, const Field& table, const std::string& path,
              const std::string& pointer, const std::string& type) {
    for (const auto& [spelled, value] : object.items()) {
      const std::string key = trimmed(spelled), at = pointer_to(pointer, spelled);
      if (is_comment(key) && !place(at).file.empty()) continue;
      const Field* const field = find_row(table, key, type);
      if (!field)
        unknown(key, value, table, path, at, type, object);
      else if (field->alias_yields && key != field->name && object.contains(field->name))
        notice(at, fmt::format("{} is ignored, because {} is also given", key, field->name));
      else if (!value.is_null() || field->takes_null)
        one(*field, value, path + field->name, at, object);
      if (field && key != spelled)
        notice(at,
               fmt::format("the key \"{}\" is read as \"{}\"", shortened(spelled), shortened(key)));
    }
  }

 private:
  Place place(const std::string& pointer) const {
    const auto line = document_.lines.find(pointer);
    if (line == document_.lines.end()) return {document_.file, 0, pointer};
    if (line->second == 0) return {"", 0, pointer};
    return {document_.file, line->second, pointer};
  }

  void notice(const std::string& pointer, std::string text) {
    loading_.problem(Severity::kNotice, place(pointer), std::move(text));
  }

  void one(const Field& field, const Json& value, const std::string& path,
           const std::string& pointer, const Json& siblings) {
    if (field.kind == Kind::kObject && !field.fields.empty()) {
      subsection(field, value, path, pointer, siblings);
      return;
    }
    if (!field.moves) {
      give(&field, path, value, place(pointer));
      return;
    }
    const bool is_auto = value == "auto" && !field.auto_value.empty();
    for (const auto& [target, text] : field.moves(value))
      if (!target.empty())
        give(find_field(target), target,
             is_auto        ? parse_json<Json>(field.auto_value)
             : text.empty() ? value
                            : parse_json<Json>(text),
             place(pointer));
  }

  void subsection(const Field& field, const Json& value, const std::string& path,
                  const std::string& pointer, const Json& siblings) {
    if (value == false && field.takes_false()) return;
    if (!value.is_object()) {
      loading_.problem(
          Severity::kError, place(pointer),
          fmt::format("{} must be an object, not {}", path, shortened(value.dump())),
          fmt::format("write \"{}\": {{\"{}\": ...}}", field.name, field.fields.front().name));
      return;
    }
    const bool has_own = value.contains("type");
    const Json& owner = has_own ? value : siblings;
    const std::string owner_path = has_own ? path : path.substr(0, path.rfind('.'));
    const bool typed = owner.contains("type") && owner["type"].is_string();
    object(value, field, path + ".", pointer,
           typed ? known_type(owner["type"], owner_path + ".type") : "");
  }

  /// The type, or "" if no type has that name. That is an error of its own, so keys of any type are
  /// then allowed next to it.
  static std::string known_type(const std::string& type, const std::string& path) {
    const Field* const row = find_field(path);
    const bool is_known = row && std::ranges::any_of(row->choices, [&](const Choice& choice) {
                            return same_key(lower(choice.name), lower(type));
                          });
    return is_known ? type : "";
  }

  /// The command line overrides the file; two different values in one of them are an error.
  void give(const Field* field, const std::string& path, const Json& value, Place where) {
    Given given{field, path, value, std::move(where)};
    const auto [found, is_new] = loading_.given_keys.try_emplace(path, given);
    if (is_new) return;
    const Place& before = found->second.place;
    if (before.file.empty() != given.place.file.empty()) {
      if (given.place.file.empty()) found->second = std::move(given);
    } else if (found->second.value != value) {
      loading_.problem(Severity::kError, given.place, fmt::format("{} is given twice", path),
                       fmt::format("the other one is {}{}", before.pointer,
                                   before.line ? fmt::format(" on line {}", before.line) : ""));
    }
  }

  /// Reports an unknown key, unless it is a parameter of a type that is not built.
  void unknown(const std::string& key, const Json& value, const Field& table,
               const std::string& path, const std::string& pointer, const std::string& type,
               const Json& siblings) {
    if (unknown_ == Unknown::kIgnored || (value.is_null() && find_row(table, key))) return;
    const std::size_t errors = loading_.result.problems.size();
    if (table.name.empty())
      unknown_on_top(key, value, table, pointer);
    else if (table.open)
      unknown_but_passed(key, table, path, pointer);
    else if (knows_type(table, type))
      unknown_in_section(key, table, path.substr(0, path.size() - 1), pointer, type, siblings);
    const bool refused = loading_.result.problems.size() > errors;
    KeyReport report;
    report.path = path + shortened(key);
    report.key_class = refused ? KeyClass::kError : KeyClass::kIgnored;
    report.given = true;
    report.value = value.dump();
    report.help = "the key is not known";
    report.origin = origin_of(place(pointer));
    loading_.unmatched_keys.push_back(std::move(report));
  }

  void unknown_in_section(const std::string& key, const Field& table, const std::string& section,
                          const std::string& pointer, const std::string& type,
                          const Json& siblings) {
    if (const Field* const other = find_row(table, key)) {
      std::string hint = fmt::format("it belongs to {}", fmt::join(other->only_for, ", "));
      if (!place(pointer).file.empty() && type_is_typed(pointer))
        hint += fmt::format("; to replace the file's: --{} '{}'", section,
                            those_of(table, type, siblings).dump());
      loading_.problem(Severity::kError, place(pointer),
                       fmt::format("{} of type {} has no {}", section, type, key), hint);
      return;
    }
    loading_.problem(Severity::kError, place(pointer),
                     fmt::format("{} has no key {}", section, shortened(key)),
                     hint_in_section(key, table, section, type));
  }

  std::string hint_in_section(const std::string& key, const Field& table,
                              const std::string& section, const std::string& type) {
    if (++hints_ > kMaxHints) return "`hgtrain config schema --text` lists the keys";
    if (const auto below = paths_of(key, table, section + "."); !below.empty())
      return fmt::format("did you mean {}?", below.front());
    // The same key elsewhere is a better hint than a similar key here.
    const ForeignKey* const size = section == "model" ? find_foreign_size(key) : nullptr;
    const ForeignKey* const foreign = size ? size : find_foreign_key(key);
    if (foreign && foreign->key.empty()) return std::string(foreign->hint);
    std::string elsewhere = foreign ? std::string(foreign->key) : path_from_top(key);
    if (elsewhere.empty() && !find_row(root_section(), key)) elsewhere = path_elsewhere(key);
    if (!elsewhere.empty()) return fmt::format("did you mean {}?", elsewhere);
    const std::string meant = meant_by(key, names_of(table, type, true));
    loading_.mistyped.insert(section + "." + meant);
    if (!meant.empty()) return fmt::format("did you mean {}?", meant);
    if (find_row(root_section(), key)) return fmt::format("{} belongs outside any section", key);
    return overview(key, names_of(table, type, false));
  }

  /// Whether the type on which rows depend was given on the command line: the type next to the key
  /// at `pointer`, or next to its section.
  bool type_is_typed(std::string pointer) const {
    for (int up = 0; up < 2; ++up) {
      pointer.resize(pointer.rfind('/'));
      if (pointer.empty()) return false;
      const auto type = document_.lines.find(pointer + "/type");
      if (type != document_.lines.end()) return type->second == 0;
    }
    return false;
  }

  static Json those_of(const Field& table, const std::string& type, const Json& object) {
    Json out = Json::object();
    for (const auto& [key, value] : object.items())
      if (find_row(table, trimmed(key), type)) out[key] = value;
    return out;
  }

  /// In HF's Trainer or another program, the key may change the training: then it is an error.
  void unknown_on_top(const std::string& key, const Json& value, const Field& table,
                      const std::string& pointer) {
    const std::string name = lower(key);  // "LoRA" means the same as "lora"
    const ForeignKey* const foreign = find_foreign_key(name);
    const std::string path = foreign ? std::string(foreign->key) : path_from_top(name);
    if (!foreign && path.empty()) return unknown_but_passed(key, table, "", pointer);
    const bool splits = path.starts_with("parallelism");
    const bool is_typed = place(pointer).file.empty();
    if (!is_typed && (splits ? splits_nothing(value) : asks_for_nothing(value))) {
      loading_.unknown.emplace_back(key, place(pointer));
      return;
    }
    if (!path.empty()) loading_.mistyped.insert(path);
    loading_.problem(
        Severity::kError, place(pointer), fmt::format("there is no key {}", key),
        path.empty() ? std::string(foreign->hint) : fmt::format("did you mean {}?", path));
  }

  /// DeepSpeed accepts any key here, so only a key that is clearly a mistake is an error.
  void unknown_but_passed(const std::string& key, const Field& table, const std::string& path,
                          const std::string& pointer) {
    std::string meant =
        nearest(key, names_of(table, "", true), std::min<std::size_t>(2, key.size() / 3));
    if (path.empty()) loading_.mistyped.insert(meant);
    if (const std::size_t dot = key.find('.');
        path.empty() && dot != std::string::npos && key.size() <= kMaxLetters)
      meant = fmt::format("{{\"{}\": {{\"{}\": ...}}}}", key.substr(0, dot), key.substr(dot + 1));
    if (!meant.empty() || place(pointer).file.empty())
      loading_.problem(Severity::kError, place(pointer),
                       fmt::format("there is no key {}", shortened(path + key)),
                       meant.empty() ? "`hgtrain config schema` lists the keys"
                                     : fmt::format("did you mean {}?", meant));
    else
      loading_.unknown.emplace_back(shortened(path + key), place(pointer));
  }

  const Document& document_;
  Unknown unknown_;
  Loading& loading_;
  int hints_ = 0;
};

/// Replaces a value that is not an object by the object it stands for, if the section allows it.
void expand_shorthands(Document& document, const Field& table) {
  for (const Field& field : table.fields) {
    if (!field.shorthand || !document.root.contains(field.name)) continue;
    Json& value = document.root[field.name];
    if (value.is_object() || value.is_null()) continue;
    const std::string text = field.shorthand(value);
    if (text.empty()) continue;
    value = parse_json<Json>(text);
    const std::string pointer = "/" + field.name;
    for (const auto& [key, unused] : value.items())
      document.lines[pointer_to(pointer, key)] = document.lines[pointer];
  }
}

Json override_value(const std::string& text, const Field* field) {
  if (field && field->kind == Kind::kText && text != "null") return text;
  try {
    return read_document(text, "").root;
  } catch (const Error&) {
    return text;
  }
}

void of_command_line(const std::string& pointer, const Json& value, Document& document) {
  document.lines[pointer] = 0;
  if (value.is_object())
    for (const auto& [key, below] : value.items())
      of_command_line(pointer_to(pointer, key), below, document);
}

}  // namespace

void add_overrides(Document& document, const std::vector<std::string>& overrides) {
  expand_shorthands(document, root_section());
  if (!document.root.is_object()) return;
  for (std::size_t i = 0; i + 1 < overrides.size(); i += 2) {
    const std::string& path = overrides[i];
    if (!is_utf8(path) || !is_utf8(overrides[i + 1]))
      throw Error(ErrorKind::kConfig, fmt::format("--{} {} is not UTF-8", shortened(path),
                                                  shortened(overrides[i + 1])));
    Json* at = &document.root;
    std::string pointer;
    for (std::size_t start = 0; start <= path.size();) {
      const std::size_t end = std::min(path.find('.', start), path.size());
      if (!at->is_object()) *at = Json::object();
      const std::string key = path.substr(start, end - start);
      at = &(*at)[key];
      pointer = pointer_to(pointer, key);
      document.lines.try_emplace(pointer, 0);
      start = end + 1;
    }
    *at = override_value(overrides[i + 1], find_field(path));
    of_command_line(pointer, *at, document);
  }
}

void collect(const Document& document, const Field& table, const std::string& prefix,
             Unknown unknown, Loading& loading) {
  for (const DuplicateKey& duplicate : document.duplicates)
    loading.problem(Severity::kError, {document.file, duplicate.line, duplicate.pointer},
                    duplicate.first_line == duplicate.line
                        ? "the key is given twice"
                        : fmt::format("the key is given twice, on lines {} and {}",
                                      duplicate.first_line, duplicate.line),
                    "remove one of them");
  if (!document.root.is_object()) {
    loading.problem(Severity::kError, {document.file, 1, ""}, "the file must hold an object",
                    "it starts with { and ends with }");
    return;
  }
  Walk(document, unknown, loading).object(document.root, table, prefix, "", "");
}

}  // namespace hgt
