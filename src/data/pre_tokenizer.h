#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "regex.h"

namespace hgt {

/// Pieces of text on the way to becoming words. Views into the text that was split, or into
/// `owned`.
struct Pieces {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;  ///< of pieces that are not a part of the text; addresses stay
};

/// The `pre_tokenizer` of a tokenizer.json: cuts normalized text into words, which are encoded
/// apart.
class PreTokenizer {
 public:
  /// ByteLevel, Split, Digits, Sequence. Error(kData) names any other. Throws nlohmann's exceptions
  /// if something is missing.
  explicit PreTokenizer(const nlohmann::json& json);

  /// The words of `text`, none of them empty.
  Pieces split(std::string_view text) const;
  /// Whether words are spelled in the alphabet of bytes (ByteLevel is among the steps).
  bool byte_level() const { return byte_level_; }

  /// Whether text can be cut at these places without changing a word: between a letter and a ' ',
  /// '\r' or '\n' that follows it, and between a letter and a '\n' before it, unless white space
  /// precedes that '\n'. True if the first step is one of the patterns of GPT-2, Llama 3, Qwen 2 or
  /// GPT-4o. None of their matches contains both sides of such a place, none looks back, and all
  /// text is matched. The one that looks ahead (white space before white space or the end) leaves a
  /// lone '\n' whole. So in the whole text a match ends there and the next begins, just like in the
  /// two halves.
  bool cuts_at_white_space() const { return cuts_at_white_space_; }

 private:
  using Step = std::function<void(std::string_view, Pieces&)>;
  void add(const nlohmann::json& json);
  void add_byte_level(const nlohmann::json& json);
  void add_split(const nlohmann::json& json);
  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool cuts_at_white_space_ = false;
  bool has_split_ = false;  ///< a step before this one may join a letter and a line end
};

}  // namespace hgt
