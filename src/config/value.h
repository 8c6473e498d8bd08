#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "field.h"

namespace hgt {

/// A value that was converted to the kind of its row.
struct Value {
  nlohmann::ordered_json json;
  std::string problem;  ///< why it cannot be used; "" if it can
  std::string hint;
  std::string notice;  ///< how it was interpreted, if that needs a notice
  const Choice* choice = nullptr;
};

/// Integers may be written 5e8 or "500", flags "true" or 1, and so on: see docs/config.md. Ranges
/// and choices are checked too.
Value to_value(const Field& field, const nlohmann::ordered_json& given);

/// JSON text of a value, with numbers as people write them.
std::string json_text(const nlohmann::ordered_json& value);

/// Stores the result of to_value.
void store(const Slot& slot, const nlohmann::ordered_json& value);
/// The value in the row's slot, null for an empty optional.
nlohmann::ordered_json load(const Field& field, Config& config);
/// The row's default, null if there is none.
nlohmann::ordered_json default_of(const Field& field);

}  // namespace hgt
