#include <cstddef>
#include <cstdint>

#include "hgtrain/base/error.h"

#include "../../src/data/encode_unit.h"

/// Any bytes are lines of JSON with texts in them, whose documents end within their tokens, or an
/// Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tokenizer = hgt::Tokenizer::byte();
  static const hgt::SourceFile file{.path = "f.jsonl", .json_lines = true};
  hgt::TextPart part{.file = &file};
  part.text.assign(reinterpret_cast<const char*>(data), size);
  try {
    const hgt::EncodedUnit unit = hgt::encode_unit({part}, *tokenizer, {.end_of_text = 256});
    std::size_t last = 0;
    for (const std::size_t end : unit.ends) {
      if (end <= last || unit.tokens.at(end - 1) != 256) __builtin_trap();
      last = end;
    }
    if (last != unit.tokens.size()) __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
