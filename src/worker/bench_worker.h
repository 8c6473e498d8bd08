#pragma once

#include <string>
#include <vector>

namespace hgt {

/// `hgtrain-worker bench`: measures, and prints the result. `args` are which (train, gemm, ops),
/// how often, text or json, and the resolved config as JSON. Returns the exit status; an error is
/// printed with hgtrain's name.
int bench_worker(const std::vector<std::string>& args);
/// `hgtrain-worker bench_copy`, likewise: cpu or cuda, bytes, threads, how often, text or json.
int bench_copy_worker(const std::vector<std::string>& args);

}  // namespace hgt
