#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hgt {

// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written:
// bytes that are printable in Latin-1 stand for themselves, the 68 others for U+0100, U+0101, ...
// in order.

/// The spelling of one byte, in UTF-8.
const std::string& letter_of(unsigned char byte);

/// The bytes that `spelling` stands for, nullopt if a character of it is not in the alphabet.
std::optional<std::string> bytes_of(std::string_view spelling);

}  // namespace hgt
