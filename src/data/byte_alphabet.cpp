#include "byte_alphabet.h"

#include <array>
#include <cstdint>

#include "unicode.h"

namespace hgt {

namespace {

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<std::int16_t, 0x144> bytes;  ///< by code point; -1: none

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const char32_t letter = printable ? static_cast<char32_t>(byte) : next++;
      append_utf8(letters[static_cast<std::size_t>(byte)], letter);
      bytes[letter] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

const std::string& letter_of(unsigned char byte) {
  return alphabet().letters[byte];
}

std::optional<std::string> bytes_of(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const char32_t letter = next_code_point(spelling, at);
    if (letter >= alphabet().bytes.size() || alphabet().bytes[letter] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().bytes[letter]);
  }
  return bytes;
}

}  // namespace hgt
