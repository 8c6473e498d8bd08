#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace hgt {

/// The whole number that a JSON value is: nlohmann's get<std::int64_t>() would also give 2 for 2.5,
/// 1 for true and anything for 1e99. What exceeds 2^63 - 1 comes out negative. Throws
/// nlohmann::json::type_error for anything else.
inline std::int64_t json_integer(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_integer_t&>();
}

}  // namespace hgt
