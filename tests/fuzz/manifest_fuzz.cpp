#include <cstddef>
#include <cstdint>
#include <string>

#include "hgtrain/base/error.h"

#include "../../src/checkpoint/manifest.h"

/// Any text is a manifest or an Error, even if its own hash is right.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& manifest : {text, text + hgt::manifest_seal(text)}) {
    try {
      hgt::parse_manifest(manifest);
    } catch (const hgt::Error&) {
    }
  }
  return 0;
}
