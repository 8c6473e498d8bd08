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
  /// where something is missing.
  explicit PreTokenizer(const nlohmann::json& json);

  /// The words of `text`, none of them empty.
  Pieces split(std::string_view text) const;
  /// Whether words are spelled in the alphabet of bytes (ByteLevel is among the steps).
  bool byte_level() const { return byte_level_; }

  /// Whether text can be cut between a letter and a line end ('\r', '\n') that follows it without
  /// changing a word. True where the first step is one of the patterns of GPT-2, Llama 3, Qwen 2 or
  /// GPT-4o: none of their matches holds a letter with a line end behind it, none looks back, what
  /// they look ahead for is no line end behind a letter, and all text is matched; so in the whole
  /// text a match ends at such a place and the next begins there, as they do in the halves.
  bool cuts_at_line_ends() const { return cuts_at_line_ends_; }

 private:
  using Step = std::function<void(std::string_view, Pieces&)>;
  void add(const nlohmann::json& json);
  void add_byte_level(const nlohmann::json& json);
  void add_split(const nlohmann::json& json);
  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool cuts_at_line_ends_ = false;
  bool has_split_ = false;  ///< a step before this one may join a letter and a line end
};

}  // namespace hgt
