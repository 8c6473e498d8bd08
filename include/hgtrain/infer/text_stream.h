#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// Makes valid UTF-8 of bytes that come piece by piece: the start of a character is held back until
/// the rest has come, what starts no character becomes U+FFFD.
class TextStream {
 public:
  /// What can be shown now.
  std::string add(std::string_view bytes);
  /// What was held back; nothing more will come.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace hgt
