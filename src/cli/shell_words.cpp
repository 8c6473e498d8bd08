#include "shell_words.h"

#include <algorithm>

#include "hgtrain/base/error.h"

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

std::vector<std::string> with_dashes(
    const std::vector<std::string>& words,
    const std::function<bool(const std::string& flag, const std::string& next)>& takes_value) {
  bool is_module = false, is_bare = false;
  std::vector<std::string> out;
  auto word = words.begin();
  for (; word != words.end() && word->starts_with('-') && *word != "--"; ++word) {
    if (*word == "-m" || *word == "--module") {
      is_module = true;
    } else if (*word == "--no_python" || *word == "--no-python") {
      is_bare = true;
    } else {
      out.push_back(*word);
      if (word + 1 != words.end() && takes_value(word[0], word[1])) out.push_back(*++word);
    }
  }
  const bool is_marked = word != words.end() && *word == "--";
  if (is_marked && (is_module || is_bare)) ++word;
  if (word == words.end() || !(is_module || is_bare || word->ends_with(".py"))) return words;
  if (is_module && is_bare)
    throw Error(ErrorKind::kConfig, "--module and --no_python are both given",
                "keep --module to run MODULE with python3, or --no_python to run PROGRAM itself");
  out.emplace_back("--");
  if (!is_bare) out.emplace_back("python3");
  if (is_module) out.emplace_back("-m");
  out.push_back(*word++);
  if (!is_marked && word != words.end() && *word == "--") ++word;  // as Python's argparse does
  out.insert(out.end(), word, words.end());
  return out;
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

bool is_submission(const std::vector<std::string>& words) {
  return words.size() > 1 && words[1] == "submit";
}

std::vector<std::string> resuming(const std::vector<std::string>& words) {
  return is_submission(words) ? words : with_key(words, "resume", "auto");
}

std::vector<std::string> with_key(const std::vector<std::string>& words, const std::string& key,
                                  const std::string& value) {
  std::vector<std::string> out = without_flag(words, "--" + key);
  out.insert(out.end(), {"--" + key, value});
  return out;
}

}  // namespace hgt
