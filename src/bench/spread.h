#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The statistics of repeats of one measurement.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};

/// The spread of the values, interpolated between ranks; zeros if there are none.
Spread spread_of(std::vector<double> values);

nlohmann::ordered_json to_json(const Spread& spread);

}  // namespace hgt
