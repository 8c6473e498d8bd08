#include "hgtrain/base/json.h"

#include <nlohmann/json.hpp>

namespace hgt {

template <class Json>
Json parse_json(std::string_view text) {
  return Json::parse(text);
}

template <class Json>
Json try_parse_json(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::int64_t json_integer(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_integer_t&>();
}

template nlohmann::json parse_json(std::string_view text);
template nlohmann::ordered_json parse_json(std::string_view text);
template nlohmann::json try_parse_json(std::string_view text);
template nlohmann::ordered_json try_parse_json(std::string_view text);

}  // namespace hgt
