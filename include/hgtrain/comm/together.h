#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/comm/communicator.h"

namespace hgt {

/// Runs `action` on every rank, and returns the results of all in rank order; any bytes may be a
/// result. All ranks call it together. If an action throws, every rank throws the error of the
/// first rank whose action did, once all are done; its context names a rank other than 0.
std::vector<std::string> run_together(Communicator& comm,
                                      const std::function<std::string()>& action);

/// The values of all ranks, in rank order. All ranks call it together, each with the same number of
/// values.
std::vector<double> values_of_ranks(Communicator& comm, std::span<const double> mine);

}  // namespace hgt
