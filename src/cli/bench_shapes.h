#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/config/load.h"

namespace hgt {

/// The job that a bench measures, in `dtype` ("" keeps the config's): "small" or "124m", whose
/// sizes are in the help pages, or a config file. No data is opened. Error(kConfig) if the job
/// cannot be trained by that many workers, or does not say how large the vocabulary is. `layout`:
/// the flag ("--layouts tp3") that errors name in place of the overrides, which nobody typed.
LoadResult bench_job(const std::string& shape, const std::string& dtype,
                     std::vector<std::string> overrides, std::int64_t workers = 1,
                     const std::string& layout = "");

}  // namespace hgt
