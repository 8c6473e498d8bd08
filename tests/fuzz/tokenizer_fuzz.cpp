#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/error.h"

#include "../../src/data/bpe_tokenizer.h"

/// A tokenizer.json, a zero byte, and a text: an Error, or a tokenizer whose ids of the text are in
/// its vocabulary and can be decoded, and which cuts the text where it says it may.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string_view text = input.substr(std::min(end + 1, size));
  try {
    const auto tokenizer = hgt::make_bpe_tokenizer(
        hgt::parse_tokenizer_json(std::string(input.substr(0, end))), "", {});
    const auto whole = tokenizer->encode(text);
    for (const std::int32_t id : whole)
      if (id < 0 || id >= tokenizer->vocab_size()) __builtin_trap();
    tokenizer->decode(whole);
    if (const std::size_t cut = tokenizer->safe_cut(text); cut != 0) {
      if (cut >= text.size()) __builtin_trap();
      auto parts = tokenizer->encode(text.substr(0, cut));
      const auto rest = tokenizer->encode(text.substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      if (parts != whole) __builtin_trap();
    }
  } catch (const hgt::Error&) {
  }
  return 0;
}
