#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace hgt {

/// Where a match lies.
struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A split pattern as tokenizer files write it: for Oniguruma's Ruby syntax, which HF's tokenizers
/// use. It runs on PCRE2. What the two read differently is translated (white space, scripts) or
/// refused (set operations, word characters, ...), never silently matched otherwise. Thread-safe.
class Regex {
 public:
  /// Error(kData) with the pattern and what is wrong with it.
  explicit Regex(const std::string& oniguruma_pattern);

  /// The first match that begins at `from` or later. `text` is valid UTF-8. Error(kData) if
  /// matching takes too much backtracking.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string oniguruma_pattern_;  // for messages
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

/// The pattern in PCRE2's syntax (with UTF, UCP, MULTILINE); Error(kData) without the pattern.
std::string pcre2_pattern(std::string_view oniguruma_pattern);

}  // namespace hgt
