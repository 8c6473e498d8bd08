#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/device/cuda_module.h"

#include "commands.h"

namespace hgt {
namespace {

nlohmann::json ask_module() {
  try {
    const CudaModule module(CudaModule::default_search());
    const CudaProbe probe = module.probe();
    return {{"build", module.tables().build},
            {"runtime_version", probe.runtime_version},
            {"status", probe.status},
            {"status_text", probe.status_text}};
  } catch (const Error& e) {
    return {{"problem", e.message()}, {"hint", e.hint()}};
  }
}

}  // namespace

int probe_worker() {
  fmt::print("{}\n", ask_module().dump());
  return 0;
}

}  // namespace hgt
