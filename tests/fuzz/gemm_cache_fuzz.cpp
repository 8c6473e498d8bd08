#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/xxh3.h"

#include "../../src/ops/gemm_cache.h"

/// Any text is choices or none, also if a right hash follows it, and choices survive their text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& file : {text, text + fmt::format("xxh3 {:016x}\n", hgt::xxh3(text))}) {
    const hgt::GemmChoices choices = hgt::choices_of(file, "fuzz");
    if (hgt::choices_of(hgt::to_text("fuzz", choices), "fuzz") != choices) __builtin_trap();
  }
  return 0;
}
