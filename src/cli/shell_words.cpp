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

std::vector<std::string> without_switches(std::vector<std::string> words,
                                          const std::vector<std::string>& switches) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto kept = std::remove_if(words.begin(), end, [&](const std::string& word) {
    return std::ranges::find(switches, word) != switches.end();
  });
  words.erase(kept, end);
  return words;
}

std::vector<std::string> with_dashes(std::vector<std::string> words) {
  if (std::ranges::find(words, "--") != words.end()) return words;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool has_name = word + 1 != words.end() && !word[1].starts_with('-');
    const bool is_module = has_name && (*word == "-m" || *word == "--module");
    const bool is_file =
        !word->starts_with('-') && word->ends_with(".py") && word->find('=') == std::string::npos;
    if (has_name && (*word == "--no_python" || *word == "--no-python")) {
      *word = "--";
      break;
    }
    if (!is_module && !is_file) continue;
    if (is_module) *word = "-m";
    words.insert(word, {"--", "python3"});
    break;
  }
  return words;
}

std::vector<std::string> without_values_of_env(std::vector<std::string> words) {
  constexpr std::string_view kFlag = "--env", kFlagWithValue = "--env=";
  bool is_value = false;
  for (std::string& word : words) {
    if (word == "--") break;
    const bool has_value = word.starts_with(kFlagWithValue);
    const std::size_t equals = word.find('=', has_value ? kFlagWithValue.size() : 0);
    if ((is_value || has_value) && equals != std::string::npos)
      word.replace(equals + 1, std::string::npos, "***");
    is_value = word == kFlag;
  }
  return words;
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
