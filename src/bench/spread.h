#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// What repeats of one measurement gave.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};

/// Of one value or more, between ranks by interpolation; zeros of none.
Spread spread_of(std::vector<double> values);

nlohmann::ordered_json to_json(const Spread& spread);

}  // namespace hgt
