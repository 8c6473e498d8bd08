#pragma once

#include <string>
#include <vector>

#include "hgtrain/config/load.h"

namespace hgt {

/// The job that a bench measures: "small" or "124m", whose sizes stand in the help pages, or a
/// config file, in `dtype` ("" leaves the config's). No data is opened. Error(kConfig) where it
/// cannot be trained, or does not say how large the vocabulary is.
LoadResult bench_job(const std::string& shape, const std::string& dtype,
                     std::vector<std::string> overrides);

}  // namespace hgt
