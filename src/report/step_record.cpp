#include "hgtrain/report/step_record.h"

#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

#include "step_fields.h"

namespace hgt {

void to_json(nlohmann::json& json, const StepRecord& record) {
  json = nlohmann::json::object();
  for_each_field(record,
                 [&](const char* name, const auto& value) { put_field(json, name, value); });
}

void from_json(const nlohmann::json& json, StepRecord& record) {
  for_each_field(record, [&](const char* name, auto& value) {
    using T = std::decay_t<decltype(value)>;
    constexpr bool kWhole = std::is_same_v<T, std::int64_t>;
    const auto found = json.find(name);
    const bool known = found != json.end() && !found->is_null();
    if (kWhole ? !known || !found->is_number_integer() : known && !found->is_number()) {
      throw Error(ErrorKind::kData, fmt::format("a step record without a proper \"{}\"", name));
    }
    if constexpr (kWhole) {
      value = found->template get<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      value = known ? found->template get<T>() : std::numeric_limits<double>::quiet_NaN();
    } else {
      value = known ? std::optional(found->template get<double>()) : std::nullopt;
    }
  });
}

}  // namespace hgt
