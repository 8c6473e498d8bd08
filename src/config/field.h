#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/key_report.h"

namespace hgt {

struct Config;
struct DataSource;

enum class Kind { kBool, kInteger, kNumber, kText, kList, kObject, kAny };

/// The entry `name` of a map of numbers, which is there if the key was given; flags are 0 or 1.
struct NamedNumber {
  std::map<std::string, double>* numbers;
  std::string name;
};
/// A list of two numbers that the struct has as two members.
struct NumberPair {
  double* first;
  double* second;
};

/// The place in Config that a key fills; none for keys that fill nothing directly.
using Slot = std::variant<std::monostate, bool*, std::int64_t*, double*, std::string*, NamedNumber,
                          NumberPair, std::optional<double>*, std::optional<std::int64_t>*,
                          std::vector<DataSource>*, std::vector<std::int64_t>*>;
using SlotOf = std::function<Slot(Config&)>;

/// A text that a key accepts, and what the program does with it.
struct Choice {
  std::string name;
  KeyClass key_class = KeyClass::kUsed;
  std::string hint = {};
};

/// A value moved to another key: its path and its JSON text. An empty path drops it.
using Moved = std::pair<std::string, std::string>;

/// One row of the table: all that the program knows about one key. Reading, writing, `--a.b.c`,
/// did-you-mean, classes, help and JSON Schema all use it.
struct Field {
  std::string name;
  Kind kind = Kind::kAny;
  KeyClass key_class = KeyClass::kUsed;
  std::string help;
  SlotOf slot;
  std::string default_json;  ///< the key's default; "" = what its slot has in an empty Config
  /// For a key that is refused: the JSON text of the value that it may have, because it leaves the
  /// feature off, as a smaller whole number does; "" = none.
  std::string off_json;
  std::vector<std::string> aliases;
  std::vector<Choice>
      choices;               ///< texts that are allowed; for a list: texts that mean the empty list
  std::string other_choice;  ///< the choice used for any other text; "" = other texts are refused
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  ///< `min` itself is refused
  bool infinity_allowed = false;
  bool floors = false;  ///< a count of elements: a fraction is cut off
  bool refuses_auto = false;
  bool default_varies = false;   ///< the slot's content in an empty Config is not the default
  int zero_stage = 0;            ///< the lowest stage of ZeRO at which the key has an effect
  bool takes_null = false;       ///< null is a value of its own; otherwise it means absent
  std::string auto_value;        ///< JSON text that "auto" stands for, "" = as if absent
  std::string auto_reason;       ///< why it stands for that
  bool auto_is_derived = false;  ///< "auto" is computed from other keys
  std::string hint;              ///< what to do instead if the key is refused
  /// For a key that stands for others: the values that it gives to those.
  std::function<std::vector<Moved>(const nlohmann::ordered_json&)> moves;

  // Sections.
  std::vector<Field> fields;
  bool open = false;          ///< unknown keys are ignored, unless they are close to a known one
  bool alias_yields = false;  ///< if alias and name are both given, the alias is dropped
  bool may_be_false = false;  ///< false means an empty section
  /// The object (JSON text) that a value of another type stands for, "" = refused.
  std::function<std::string(const nlohmann::ordered_json&)> shorthand;
  std::string example;  ///< of the section, shown if it is missing
  /// Only for a `type` of one of these names, in the same section or next to it.
  std::vector<std::string> only_for;

  bool takes_false() const;  ///< of a section

  // Each returns the row with one property more.
  Field aka(std::vector<std::string> names) &&;  ///< other names of the key
  Field one_of(std::vector<Choice> list) &&;
  Field others_are(std::string choice) &&;  ///< any other text stands for this choice
  Field at_least(double value) &&;
  Field at_most(double value) &&;
  Field above(double value) &&;
  Field as_integer() &&;
  Field elements() &&;  ///< a count of elements: not negative, saturates, fractions are cut off
  Field auto_is(std::string json, std::string reason = "the default of HF's Trainer") &&;
  Field auto_derived() &&;             ///< "auto" is computed from other keys
  Field instead(std::string text) &&;  ///< what to do instead, if the key is refused
  Field defaults_to(std::string json) &&;
  Field off_if(std::string json) &&;  ///< the key is refused, but may have this value
  /// The row exists only if the section's `type` is one of these.
  Field only(std::vector<std::string> types) &&;
  Field from_stage(int stage) &&;  ///< the key has an effect from this stage of ZeRO on
};

/// A key that fills `slot` and has the slot's kind.
Field used(std::string name, SlotOf slot, std::string help);
Field ignored(std::string name, Kind kind, std::string help);
/// `off`: the value (JSON text) that does not switch it on.
Field not_built(std::string name, Kind kind, std::string off, std::string help);
/// Refused with any value; `help` is the reason.
Field refused(std::string name, std::string help, std::string hint);
Field section(std::string name, std::string help, std::vector<Field> fields);
/// Another spelling of the key at `path`.
Field moved(std::string name, Kind kind, std::string path);

/// Makes slots of one struct of Config: `In in{&Config::training}; in(&TrainingConfig::seed)`.
template <class Section>
struct In {
  Section Config::*section;
  template <class Member>
  SlotOf operator()(Member Section::*member) const {
    return
        [section = section, member](Config& config) -> Slot { return &(config.*section.*member); };
  }
};
template <class Section>
In(Section Config::*) -> In<Section>;  // clang before 17 does not find it for an aggregate

/// The whole file as one section without a name, built on first use.
const Field& root_section();

/// The row of a canonical path ("optimizer.params.lr"), nullptr if there is none. If several rows
/// have that name, the row for `type`.
const Field* find_field(const std::string& path, const std::string& type = "");

/// Whether two names are the same key; hyphens count as underscores.
bool same_key(std::string_view a, std::string_view b);

/// The row of a key of `table` by any of its names, nullptr if there is none.
const Field* find_row(const Field& table, std::string_view name, const std::string& type = "");

/// Whether a value leaves the row's feature switched off, according to `off_json`.
bool is_off(const Field& field, const nlohmann::ordered_json& value);

/// Canonical paths of the used keys below `table` that have this name or this other spelling:
/// "training.seed" and "data.seed" for "seed".
std::vector<std::string> paths_of(std::string_view name, const Field& table,
                                  const std::string& prefix = "");

/// Whether a row applies to `type`, ignoring case.
bool goes_with(const Field& field, const std::string& type);

/// The `type` to which rows below a section apply: that of the optimizer or of a schedule,
/// otherwise the type to which the section itself applies.
std::string type_below(const Field& section, const Config& config, const std::string& inherited);

}  // namespace hgt
