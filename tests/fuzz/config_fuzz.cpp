#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/load.h"

/// Any text is a config with its problems or an Error, and a config without errors survives writing
/// and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  hgt::LoadResult loaded;
  try {
    loaded = hgt::load_config_text(text, "f.json", {{}, 2});
  } catch (const hgt::Error&) {
    return 0;
  }
  for (const hgt::Problem& problem : loaded.problems)
    if (problem.severity != hgt::Severity::kNotice) return 0;
  const auto written = hgt::to_json(loaded.config);
  if (hgt::to_json(hgt::config_from_resolved(written)) != written) __builtin_trap();
  return 0;
}
