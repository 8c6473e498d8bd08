#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// An entry of `added_tokens` in a tokenizer.json: a text that becomes one token wherever it
/// occurs.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< matches only if no word character is next to it
  bool lstrip = false;       ///< takes white space before it
  bool rstrip = false;       ///< takes white space after it
};

/// Finds added tokens in text: the leftmost first, of those the longest.
class AddedTokens {
 public:
  struct Segment {
    std::string_view text;
    std::int32_t id = -1;  ///< of the token that `text` is; -1: ordinary text
  };
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// All of `text` in order; no ordinary segment is empty.
  std::vector<Segment> split(std::string_view text) const;

 private:
  const AddedToken* match_at(std::string_view text, std::size_t at) const;
  std::vector<AddedToken> tokens_;  ///< by first byte, then longest first
  std::array<std::pair<std::size_t, std::size_t>, 256> with_{};  ///< first byte -> range of tokens_
};

}  // namespace hgt
