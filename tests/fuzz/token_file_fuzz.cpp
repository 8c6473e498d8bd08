#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/data/token_file.h"

#include "in_memory.h"

namespace {

void read_all(const std::string& path, const std::string& bare_type) {
  try {
    const hgt::TokenFile file = hgt::TokenFile::open(path, bare_type);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.num_tokens()));
    file.fingerprint();
    constexpr std::int32_t kLimit = 50'000;
    file.read(0, tokens, kLimit);
    for (const std::int32_t token : tokens)
      if (token < 0 || token >= kLimit) __builtin_trap();
  } catch (const hgt::Error&) {
  }
}

}  // namespace

/// One byte for the size of a Megatron .bin, the rest is its .idx; and all of it a file of another
/// format. Each is refused with an Error, or its tokens can be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hgt::TemporaryFolder folder(hgt::TemporaryFolder::kMemory);
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  hgt::put(folder / "pair.bin", std::string(data[0], '\1'));
  hgt::put(folder / "pair.idx", bytes.substr(1));
  read_all(folder / "pair", "auto");
  hgt::put(folder / "alone.bin", bytes);
  read_all(folder / "alone.bin", "auto");
  read_all(folder / "alone.bin", "uint32");
  return 0;
}
