#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"

#include "../../src/data/byte_source.h"
#include "in_memory.h"

/// Any bytes are a .gz, a .zst, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hgt::TemporaryFolder folder(hgt::TemporaryFolder::kMemory);
  for (const char* name : {"f.gz", "f.zst"}) {
    hgt::put(folder / name, {reinterpret_cast<const char*>(data), size});
    try {
      const auto source = hgt::ByteSource::open(folder / name);
      std::array<char, 4096> buffer;
      while (source->read(buffer) == buffer.size()) {
      }
    } catch (const hgt::Error&) {
    }
  }
  return 0;
}
