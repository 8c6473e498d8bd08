#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// Turns bytes that arrive piece by piece into valid UTF-8. The start of a character is held back
/// until the rest has arrived; invalid bytes become U+FFFD.
class TextStream {
 public:
  /// The text that is complete now.
  std::string add(std::string_view bytes);
  /// The end of the text: the bytes that were held back.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace hgt
