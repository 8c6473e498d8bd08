#include "value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "hgtrain/base/json.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/config.h"

namespace hgt {

using Json = nlohmann::ordered_json;

std::string json_text(const Json& value) {
  std::string text = value.dump();
  if (value.is_number_float()) std::erase(text, '+');  // 1e20, not 1e+20
  return text;
}

namespace {

Value problem(std::string what, std::string hint = "") {
  Value out;
  out.problem = std::move(what);
  out.hint = std::move(hint);
  return out;
}

/// The value in the form in which it was given. JSON cannot write infinity or NaN.
std::string shown(const Json& given) {
  if (!given.is_number_float()) return shortened(given.dump());
  if (std::isfinite(given.get<double>())) return json_text(given);
  return std::isnan(given.get<double>()) ? "NaN"
         : given.get<double>() > 0       ? "Infinity"
                                         : "-Infinity";
}

/// The nearest int64; larger values saturate.
std::int64_t saturated(double number) {
  constexpr double kLimit = 9223372036854775808.0;
  if (number >= kLimit) return INT64_MAX;
  if (number < -kLimit) return INT64_MIN;
  return static_cast<std::int64_t>(number);
}

/// A count beyond int64 that fills no slot is kept unchanged.
Json count_of(const Field& field, double number) {
  const std::int64_t count = saturated(number);
  return field.slot || count != INT64_MAX || !std::isfinite(number) ? Json(count) : Json(number);
}

Value must_be(const char* what, const Json& given) {
  return problem(fmt::format("must be {}, not {}", what, shown(given)));
}

Value to_bool(const Field& field, const Json& given) {
  Value out;
  out.json = given;
  if (given.is_boolean()) return out;
  const std::string text = given.is_string() ? lower(given.get<std::string>()) : given.dump();
  if (text != "true" && text != "false" && text != "1" && text != "0")
    return must_be(field.auto_value.empty() ? "true or false" : "true, false or \"auto\"", given);
  out.json = text == "true" || text == "1";
  out.notice = fmt::format("{} is taken as {}", shown(given), out.json.dump());
  return out;
}

/// A number, or the text of one.
bool as_number(const Json& given, double& number) {
  if (given.is_number()) {
    number = given.get<double>();
    return true;
  }
  if (!given.is_string()) return false;
  const std::string text = given.get<std::string>();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

Value in_range(const Field& field, const Json& given, Value value) {
  const double number = value.json.get<double>();
  const bool below = field.above_min ? number <= field.min : number < field.min;
  if (below && field.min == 0 && !field.above_min)
    return problem(fmt::format("= {} is negative", shown(given)));
  if (below)
    return problem(fmt::format("= {}, but must be {} {}", shown(given),
                               field.above_min ? "more than" : "at least", field.min));
  if (number > field.max)
    return problem(fmt::format("= {}, but must be at most {}", shown(given), field.max));
  return value;
}

Value to_number(const Field& field, const Json& given) {
  Value out;
  double number = 0;
  if (!as_number(given, number)) return must_be("a number", given);
  if (!std::isfinite(number)) return must_be("a finite number", given);
  out.json = given.is_string() ? Json(number) : given;
  if (given.is_string())
    out.notice = fmt::format("{} is taken as {}", shown(given), out.json.dump());
  return in_range(field, given, std::move(out));
}

Value to_integer(const Field& field, const Json& given) {
  Value out;
  double number = 0;
  if (given.is_number_integer()) {
    out.json = given;
    return in_range(field, given, std::move(out));
  }
  if (!as_number(given, number)) return must_be("a whole number", given);
  if (field.infinity_allowed && number > 0 && std::isinf(number)) {
    out.json = 0;
    return out;
  }
  if (!std::isfinite(number) && !(field.floors && number > 0))
    return must_be("a finite number", given);
  const bool whole = number == std::floor(number);
  if (!whole && !field.floors)
    return problem(fmt::format("must be a whole number, not {}", shown(given)));
  out.json = count_of(field, std::floor(number));
  if (given.is_string() || !whole)
    out.notice = fmt::format("{} is taken as {}", shown(given), out.json.dump());
  return in_range(field, given, std::move(out));
}

/// A hint with a choice that works: the nearest, its replacement, one that contains `word`
/// ("cosine": WarmupCosineLR), or the longest that it contains ("FusedAdamW": AdamW).
std::string hint_for_choice(const Field& field, const std::string& word) {
  std::vector<std::string> all, usable;
  for (const Choice& choice : field.choices) {
    all.push_back(choice.name);
    if (choice.key_class <= KeyClass::kIgnored) usable.push_back(choice.name);
  }
  std::string meant = nearest(word, all);
  for (const Choice& choice : field.choices)
    if (choice.name == meant && !choice.hint.empty()) return choice.hint;
  constexpr std::size_t kTelling = 4;
  for (const std::string& name : usable)
    if (meant.empty() && word.size() >= kTelling && lower(name).find(lower(word)) != name.npos)
      meant = name;
  if (meant.empty())
    for (const std::string& name : usable)
      if (name.size() >= std::max(kTelling, meant.size()) &&
          lower(word).find(lower(name)) != word.npos)
        meant = name;
  return std::count(usable.begin(), usable.end(), meant) == 0
             ? fmt::format("{}one of: {}",
                           field.kind == Kind::kList ? "a list in brackets, or " : "",
                           fmt::join(usable, ", "))
             : fmt::format("did you mean \"{}\"?", meant);
}

Value to_text(const Field& field, const Json& given) {
  if (!given.is_string()) return must_be("text in double quotes", given);
  Value out;
  out.json = given;
  if (field.choices.empty()) return out;
  for (const Choice& choice : field.choices) {
    if (lower(choice.name) == lower(given.get<std::string>())) {
      out.json = choice.name;
      out.choice = &choice;
      return out;
    }
  }
  if (field.other_choice.empty())
    return problem(fmt::format("= {} is not known", shown(given)), hint_for_choice(field, given));
  out.json = field.other_choice;
  out.notice = fmt::format("{} is not known: \"{}\" is used", shown(given), field.other_choice);
  return out;
}

Value to_pair(const Field& field, const Json& given) {
  if (!given.is_array() || given.size() != 2) return must_be("a list of two numbers", given);
  Value out;
  out.json = Json::array();
  for (const Json& part : given) {
    Value value = to_number(field, part);
    if (!value.problem.empty()) return value;
    out.json.push_back(value.json);
  }
  return out;
}

Value to_integers(const Field& field, const Json& given) {
  Value out;
  out.json = Json::array();
  if (given.is_string() && !field.choices.empty()) {
    const Value text = to_text(field, given);
    return text.problem.empty() ? out : text;
  }
  if (!given.is_array()) return must_be("a list of whole numbers", given);
  for (const Json& part : given) {
    Value value = to_integer(field, part);
    if (!value.problem.empty()) return value;
    out.json.push_back(value.json);
  }
  return out;
}

/// One of: "path"; ["a", "b"]; [0.3, "a", 0.7, "b"]; [{"path": "a", "weight": 0.3}, ...].
Value to_sources(const Json& given) {
  const char* const kShape =
      "a path, a list of paths, or a list of {\"path\": ..., \"weight\": ...}";
  const Json list = given.is_array() ? given : Json::array({given});
  if (list.empty()) return problem("names no file");
  Value out;
  out.json = Json::array();
  double weight = 0;
  bool weighted = false;
  for (const Json& item : list) {
    double number = 0;
    if (item.is_object() && item.contains("path") && item["path"].is_string() &&
        item.size() == 1 + item.count("weight") &&
        (item.size() == 1 || as_number(item["weight"], number))) {
      out.json.push_back({{"path", item["path"]}, {"weight", number}});
    } else if (given.is_array() && !weighted && as_number(item, number)) {
      weight = number;
      weighted = true;
      continue;
    } else if (item.is_string() && !item.get<std::string>().empty()) {
      out.json.push_back({{"path", item}, {"weight", weight}});
    } else {
      return must_be(kShape, item);
    }
    const double last = out.json.back()["weight"];
    if (!(last >= 0) || !std::isfinite(last)) return problem("has a negative weight");
    weight = 0;
    weighted = false;
  }
  if (weighted) return problem("ends with a weight that has no path");
  const auto bare = std::count_if(out.json.begin(), out.json.end(),
                                  [](const Json& source) { return source["weight"] == 0.0; });
  if (bare != 0 && bare != std::ssize(out.json))
    return problem("gives a weight to some paths and none to others");
  return out;
}

}  // namespace

Value to_value(const Field& field, const Json& given) {
  if (field.slot) {
    Config config;
    const Slot slot = field.slot(config);
    if (std::holds_alternative<std::vector<DataSource>*>(slot)) return to_sources(given);
    if (std::holds_alternative<NumberPair>(slot)) return to_pair(field, given);
    if (std::holds_alternative<std::vector<std::int64_t>*>(slot)) return to_integers(field, given);
  }
  Value as_is;
  as_is.json = given;
  switch (field.kind) {
    case Kind::kBool:
      return to_bool(field, given);
    case Kind::kInteger:
      return to_integer(field, given);
    case Kind::kNumber:
      return to_number(field, given);
    case Kind::kText:
      return to_text(field, given);
    case Kind::kList:
      return given.is_array() ? as_is : must_be("a list", given);
    case Kind::kObject:
      return given.is_object() ? as_is : must_be("an object", given);
    case Kind::kAny:
      break;
  }
  return as_is;
}

void store(const Slot& slot, const Json& value) {
  struct Storing {
    const Json& value;
    void operator()(std::monostate) const {}
    void operator()(bool* out) const { *out = value.get<bool>(); }
    void operator()(std::int64_t* out) const { *out = value.get<std::int64_t>(); }
    void operator()(double* out) const { *out = value.get<double>(); }
    void operator()(std::string* out) const { *out = value.get<std::string>(); }
    void operator()(const NamedNumber& out) const {
      (*out.numbers)[out.name] = value.is_boolean() ? value.get<bool>() : value.get<double>();
    }
    void operator()(NumberPair out) const {
      *out.first = value[0].get<double>();
      *out.second = value[1].get<double>();
    }
    void operator()(std::optional<double>* out) const { *out = value.get<double>(); }
    void operator()(std::optional<std::int64_t>* out) const { *out = value.get<std::int64_t>(); }
    void operator()(std::vector<DataSource>* out) const {
      out->clear();
      for (const Json& item : value) out->push_back({item["path"], item["weight"]});
    }
    void operator()(std::vector<std::int64_t>* out) const {
      *out = value.get<std::vector<std::int64_t>>();
    }
  };
  std::visit(Storing{value}, slot);
}

namespace {

struct LoadValue {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const bool* in) const { return *in; }
  Json operator()(const std::int64_t* in) const { return *in; }
  Json operator()(const double* in) const { return *in; }
  Json operator()(const std::string* in) const { return *in; }
  Json operator()(const NamedNumber& in) const {
    const auto found = in.numbers->find(in.name);
    return found == in.numbers->end() ? Json() : Json(found->second);
  }
  Json operator()(NumberPair in) const { return Json::array({*in.first, *in.second}); }
  Json operator()(const std::optional<double>* in) const { return *in ? Json(**in) : Json(); }
  Json operator()(const std::optional<std::int64_t>* in) const { return *in ? Json(**in) : Json(); }
  Json operator()(const std::vector<DataSource>* in) const {
    Json out = Json::array();
    for (const DataSource& source : *in)
      if (source.weight == 0)
        out.push_back(source.path);
      else
        out.push_back({{"path", source.path}, {"weight", source.weight}});
    return out;
  }
  Json operator()(const std::vector<std::int64_t>* in) const { return *in; }
};

}  // namespace

Json load(const Field& field, Config& config) {
  Json out = std::visit(LoadValue(), field.slot(config));
  if (field.kind == Kind::kInteger && out.is_number_float()) out = saturated(out.get<double>());
  if (field.kind == Kind::kBool && out.is_number()) out = out != 0;
  return out;
}

nlohmann::ordered_json default_of(const Field& field) {
  for (const std::string& json : {field.default_json, field.off_json})
    if (!json.empty()) return parse_json<nlohmann::ordered_json>(json);
  if (!field.slot || field.default_varies) return nullptr;
  Config config;
  return load(field, config);
}

}  // namespace hgt
