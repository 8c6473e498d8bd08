#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"
#include "hgtrain/data/manifest.h"

#include "in_memory.h"

/// Any text next to token files is their manifest, that of something else or an Error, and a
/// manifest survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hgt::TemporaryFolder folder(hgt::TemporaryFolder::kMemory);
  hgt::put(folder / "d.bin", "");
  hgt::put(folder / "d.idx", "");
  hgt::put(folder / "d.json", {reinterpret_cast<const char*>(data), size});
  try {
    const auto manifest = hgt::read_manifest(folder / "d");
    if (!manifest) return 0;
    const std::string text = hgt::to_text(*manifest);
    hgt::put(folder / "d.json", text);
    if (hgt::to_text(*hgt::read_manifest(folder / "d")) != text) __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
