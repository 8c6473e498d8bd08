#pragma once

#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The value of a JSON text; `Json` is nlohmann::json or nlohmann::ordered_json. Throws
/// nlohmann::json::exception if the text is not JSON. (Json::parse() takes a second to compile in
/// each file that calls it.)
template <class Json>
Json parse_json(std::string_view text);

/// The same without an exception: the value is_discarded() if the text is not JSON.
template <class Json>
Json try_parse_json(std::string_view text);

/// The whole number that a JSON value is: nlohmann's get<std::int64_t>() would also give 2 for 2.5,
/// 1 for true and anything for 1e99. What exceeds 2^63 - 1 comes out negative. Throws
/// nlohmann::json::type_error for anything else.
std::int64_t json_integer(const nlohmann::json& value);

}  // namespace hgt
