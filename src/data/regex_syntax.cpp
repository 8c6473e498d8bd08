#include <algorithm>
#include <array>
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

struct CategoryRanges {
  std::string_view category, ranges;
};

// What Unicode 15 to 16 added: Oniguruma knows it, PCRE2 before 10.45 does not. Printed by
// scripts/late_characters.
constexpr auto kLateCharacters = std::to_array<CategoryRanges>({
    {"Ll", "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"},
    {"Lm",
     "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}\\x{1e030}-\\x{1e06d}\\x{"
     "1e4eb}"},
    {"Lo",
     "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{"
     "11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{"
     "113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{"
     "13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}"
     "\\x{1b132}\\x{1b155}\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-"
     "\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"Lu", "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"},
    {"Mc",
     "\\x{cf3}\\x{113b8}-\\x{113ba}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113cd}"
     "\\x{113cf}\\x{1171e}\\x{11f03}\\x{11f34}-\\x{11f35}\\x{11f3e}-\\x{11f3f}\\x{11f41}\\x{1612a}-"
     "\\x{1612c}"},
    {"Mn",
     "\\x{897}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113bb}-\\x{113c0}\\x{"
     "113ce}\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f36}-\\x{11f3a}\\x{"
     "11f40}\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{16129}\\x{1612d}-\\x{"
     "1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"},
    {"Nd",
     "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{"
     "16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-"
     "\\x{1e5fa}"},
    {"No", "\\x{1d2c0}-\\x{1d2d3}"},
    {"Pd", "\\x{10d6e}"},
    {"Po",
     "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{11b00}-\\x{11b09}"
     "\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"},
    {"Sm", "\\x{10d8e}-\\x{10d8f}"},
    {"So",
     "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{1cc00}-\\x{1ccef}\\x{"
     "1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-"
     "\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}"
     "-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{"
     "1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"},
});

/// Late characters of a category ("Lu") or a group of them ("L").
std::string late_characters(std::string_view category) {
  std::string ranges;
  for (const CategoryRanges& late : kLateCharacters)
    if (late.category.starts_with(category)) ranges += late.ranges;
  return ranges;
}

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
      property(c, in_class);
    else if (c == 'x' || c == 'u')
      code_point(c);
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0 && !is_same_in_pcre(c, in_class))
      refuse(fmt::format("\\{}", c));
    else
      out_ += {'\\', c};
  }

  static bool is_same_in_pcre(char escaped, bool in_class) {
    return std::string_view("nrtfae").find(escaped) != std::string_view::npos ||
           (!in_class && (escaped == 'A' || escaped == 'z'));
  }

  void space(std::string_view ranges, bool in_class) {
    if (!in_class) out_ += '[';
    out_ += ranges;
    if (!in_class) out_ += ']';
  }

  /// \p{Lu}, \p{^N}, \p{Han}.
  void property(char letter, bool in_class) {
    const std::size_t end = in_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) refuse("\\p without braces");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const bool negated = name.starts_with('^') != (letter == 'P');
    if (name.starts_with('^')) name.remove_prefix(1);
    if (name.size() > 2) {
      // PCRE2 from 10.40 on means by a script's name those that merely use the character as well.
      const char* script = PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40 ? "sc:" : "";
      out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', script, name);
    } else if (!in_class) {
      out_ += fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", name, late_characters(name));
    } else if (negated) {
      out_ += fmt::format("\\P{{{}}}", name);
    } else {
      out_ += fmt::format("\\p{{{}}}{}", name, late_characters(name));
    }
  }

  /// \x{1F600}, \x41, \u0041.
  void code_point(char letter) {
    const bool braces = letter == 'x' && take("{");
    const std::size_t begin = at_, max_digits = braces ? 6 : letter == 'x' ? 2 : 4;
    while (at_ - begin < max_digits && std::isxdigit(static_cast<unsigned char>(peek())) != 0)
      ++at_;
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

  /// {n}, {n,} or {n,m}; otherwise a literal brace.
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
