#include <algorithm>
#include <cctype>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "regex.h"

namespace hgt {

namespace {

// Oniguruma's \s is the property White_Space; PCRE2's also takes U+180E.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"
    "205f}"
    "\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"
    "10ffff}";

[[noreturn]] void refuse(std::string_view what) {
  throw Error(ErrorKind::kData, fmt::format("uses {}, which hgtrain does not support", what));
}

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_++];
      switch (c) {
        case '\\':
          escape(false);
          break;
        case '[':
          char_class();
          break;
        case '(':
          group();
          break;
        case '{':
          interval();
          break;
        default:
          out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < in_.size() ? in_[at_] : '\0'; }
  bool take(std::string_view text) {
    if (!in_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  std::string digits() {
    const std::size_t begin = at_;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
    return std::string(in_.substr(begin, at_ - begin));
  }

  /// What follows a backslash.
  void escape(bool in_class) {
    if (at_ == in_.size()) refuse("a backslash at its end");
    const char c = in_[at_++];
    if (c == 's' || c == 'S')
      space(c == 's' ? kSpace : kNotSpace, in_class);
    else if (c == 'd' || c == 'D')
      out_ += c == 'd' ? "\\p{Nd}" : "\\P{Nd}";
    else if (c == 'p' || c == 'P')
      property(c);
    else if (c == 'x' || c == 'u')
      code_point(c);
    else if (std::string_view("nrtfae").find(c) != std::string_view::npos ||
             (!in_class && (c == 'A' || c == 'z')))
      out_ += {'\\', c};
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      refuse(fmt::format("\\{}", c));
    else
      out_ += {'\\', c};
  }

  void space(std::string_view ranges, bool in_class) {
    if (!in_class) out_ += '[';
    out_ += ranges;
    if (!in_class) out_ += ']';
  }

  /// \p{Lu}, \p{^N}, \p{Han}.
  void property(char letter) {
    const std::size_t end = in_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) refuse("\\p without braces");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    // PCRE2 from 10.40 on means by a script's name those that merely use the character as well.
    const bool category = name.size() <= 2;
    const char* script = !category && (PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40) ? "sc:" : "";
    out_ += fmt::format("\\{}{{{}{}{}}}", letter, negated ? "^" : "", script, name);
  }

  /// \x{1F600}, \x41, \u0041.
  void code_point(char letter) {
    const bool braces = letter == 'x' && take("{");
    const std::size_t begin = at_, most = braces ? 6 : letter == 'x' ? 2 : 4;
    while (at_ - begin < most && std::isxdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
    const std::string hex(in_.substr(begin, at_ - begin));
    if (hex.empty() || (braces && !take("}"))) refuse(fmt::format("a malformed \\{}", letter));
    // A raw byte for Oniguruma, a code point for PCRE2.
    if (letter == 'x' && !braces && hex.size() == 2 && hex[0] >= '8') refuse("\\x" + hex);
    out_ += fmt::format("\\x{{{}}}", hex);
  }

  void char_class() {
    out_ += '[';
    if (take("^")) out_ += '^';
    if (peek() == ']') refuse("a ']' first in a class");
    while (!take("]")) {
      if (at_ == in_.size()) refuse("a class without end");
      if (take("&&")) refuse("a class with &&");
      if (peek() == '[') refuse("a class within a class");
      const char c = in_[at_++];
      if (c == '\\')
        escape(true);
      else
        out_ += c;
    }
    out_ += ']';
  }

  void group() {
    out_ += '(';
    if (peek() == '*') refuse("(*");
    if (peek() != '?') return;
    for (const std::string_view start : {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"}) {
      if (!take(start)) continue;
      out_ += start;
      return;
    }
    refuse("(" + std::string(in_.substr(at_, 3)));
  }

  /// {n}, {n,} or {n,m}; else a brace that stands for itself.
  void interval() {
    const std::size_t begin = at_;
    const std::string low = digits();
    const bool comma = take(",");
    digits();
    if (!take("}") || (low.empty() && !comma)) {
      at_ = begin;
      out_ += "\\{";
      return;
    }
    if (low.empty()) refuse("{,n}");
    if (peek() == '+')
      refuse("{n}+");  // possessive for PCRE2, a repeat of the repeat for Oniguruma
    if (peek() == '?' && !comma) refuse("{n}?");  // reluctant, and optional
    out_ += '{';
    out_ += in_.substr(begin, at_ - begin);
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_pattern(std::string_view oniguruma_pattern) {
  return Translator(oniguruma_pattern).run();
}

}  // namespace hgt
