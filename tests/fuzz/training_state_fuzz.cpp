#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"

#include "../../src/checkpoint/training_state.h"

/// Any text is the counters of a run or an Error, and counters survive writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto state = hgt::parse_training_state({reinterpret_cast<const char*>(data), size});
    const std::string text = hgt::training_state_text(state);
    if (hgt::training_state_text(hgt::parse_training_state(text)) != text) __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
