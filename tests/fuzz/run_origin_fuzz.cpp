#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"
#include "hgtrain/config/run_checkpoints.h"

/// Any text is the origin of a branch or an Error; a name in the run folder is that of a step.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto origin = hgt::parse_origin({reinterpret_cast<const char*>(data), size});
    const std::string& name = origin.checkpoint;
    if (!name.empty() && name.front() != '/' && name.find('/') != std::string::npos)
      __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
