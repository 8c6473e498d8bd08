#include "spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <nlohmann/json.hpp>

namespace hgt {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const double above = values[std::min(below + 1, values.size() - 1)];
    return std::lerp(values[below], above, at - static_cast<double>(below));
  };
  return {quantile(0.5), quantile(0.1), quantile(0.9)};
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}};
}

}  // namespace hgt
