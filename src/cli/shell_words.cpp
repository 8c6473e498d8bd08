#include "shell_words.h"

#include <algorithm>

namespace hgt {
std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::string& flag) {
  const auto end = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> out;
  for (auto word = words.begin(); word != end; ++word) {
    if (*word == flag) {
      if (++word == end) break;  // its value
    } else if (!word->starts_with(flag + "=")) {
      out.push_back(*word);
    }
  }
  out.insert(out.end(), end, words.end());
  return out;
}

std::vector<std::string> resuming(const std::vector<std::string>& words) {
  return with_key(words, "resume", "auto");
}

std::vector<std::string> with_key(const std::vector<std::string>& words, const std::string& key,
                                  const std::string& value) {
  std::vector<std::string> out = without_flag(words, "--" + key);
  out.insert(out.end(), {"--" + key, value});
  return out;
}

}  // namespace hgt
