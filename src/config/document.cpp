#include "document.h"

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr int kMaxDepth = 100;

/// Length of the UTF-8 sequence at the start of `text`, 0 if it is invalid (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool too_large = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || too_large ? 0 : length;
}

void append_utf8(std::string& out, std::uint32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    tail(12), tail(6), tail(0);
  }
}

class Reader {
 public:
  Reader(std::string_view text, Document& document) : text_(text), document_(document) {}

  void read() {
    if (text_.starts_with("\xFF\xFE") || text_.starts_with("\xFE\xFF"))
      fail("the text is UTF-16", "save it as UTF-8");
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
    skip_space();
    if (at_ == text_.size()) fail("the text is empty");
    document_.root = value("", 0);
    skip_space();
    if (at_ < text_.size()) fail("there is text after the end of the value");
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw Error(ErrorKind::kConfig,
                fmt::format("{}:{}:{}: {}", document_.file, line_, at_ - line_start_ + 1, what),
                hint);
  }

  bool starts_with(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void advance(std::size_t count) {
    for (; count > 0 && at_ < text_.size(); --count)
      if (text_[at_++] == '\n') {
        ++line_;
        line_start_ = at_;
      }
  }

  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void skip_space() {
    for (;;) {
      if (at_ < text_.size() &&
          std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
        advance(1);
      else if (peek() == '#' || starts_with("//"))
        skip_line();
      else if (starts_with("/*"))
        skip_block_comment();
      else
        return;
    }
  }

  void skip_block_comment() {
    const std::size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) fail("a comment is not closed", "close it with */");
    advance(end + 2 - at_);
  }

  Json value(const std::string& pointer, int depth) {
    if (depth > kMaxDepth) fail(fmt::format("values nest deeper than {}", kMaxDepth));
    document_.lines.try_emplace(pointer, line_);
    switch (peek()) {
      case '{':
        return object(pointer, depth);
      case '[':
        return array(pointer, depth);
      case '"':
        return string();
      default:
        return word();
    }
  }

  Json object(const std::string& pointer, int depth) {
    Json out = Json::object();
    advance(1);
    for (;;) {
      skip_space();
      if (peek() == '}') break;
      if (peek() != '"') fail_at_key();
      const int line = line_;
      const std::string key = string();
      const std::string below = pointer_to(pointer, key);
      skip_space();
      if (peek() != ':') fail(fmt::format("expected ':' after the key \"{}\"", key));
      advance(1);
      skip_space();
      const auto [first, is_new] = document_.lines.try_emplace(below, line);
      if (is_new) {
        out.get_ref<Json::object_t&>().emplace_back(key, value(below, depth + 1));
      } else {
        document_.duplicates.push_back({below, first->second, line});
        value("\n" + std::to_string(at_), depth + 1);  // a pointer that no other value has
      }
      if (!comma_or('}')) break;
    }
    advance(1);
    return out;
  }

  [[noreturn]] void fail_at_key() const {
    if (at_ == text_.size()) fail("the text ends inside an object", "a '}' is missing");
    if (peek() == ',') fail("a comma too many");
    fail("expected a key in double quotes",
         "write keys and strings in double quotes: \"lr\": 1e-3");
  }

  Json array(const std::string& pointer, int depth) {
    Json out = Json::array();
    advance(1);
    for (;;) {
      skip_space();
      if (peek() == ']') break;
      out.push_back(value(pointer + "/" + std::to_string(out.size()), depth + 1));
      if (!comma_or(']')) break;
    }
    advance(1);
    return out;
  }

  /// True past a comma, false at `close`.
  bool comma_or(char close) {
    skip_space();
    if (peek() == close) return false;
    if (at_ == text_.size()) fail(fmt::format("the text ends, but a '{}' is missing", close));
    if (peek() != ',')
      fail(fmt::format("expected ',' or '{}'", close), "is a comma missing before it?");
    advance(1);
    return true;
  }

  std::string string() {
    std::string out;
    ++at_;
    while (peek() != '"') {
      if (at_ == text_.size() || peek() == '\n')
        fail("a string is not closed on its line", "close it with \"");
      if (static_cast<unsigned char>(peek()) < 0x20)
        fail("a control character in a string", "write \\t or \\u0000");
      if (peek() == '\\') {
        escape(out);
        continue;
      }
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) fail("not UTF-8");
      out.append(text_.substr(at_, length));
      at_ += length;
    }
    ++at_;
    return out;
  }

  void escape(std::string& out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
    const char name = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const std::size_t which = name == '\0' ? std::string_view::npos : kNames.find(name);
    if (which != std::string_view::npos) {
      out += kMeaning[which];
      at_ += 2;
      return;
    }
    std::uint32_t c = code_unit();
    if (c >= 0xD800 && c < 0xDC00) {
      const std::uint32_t low = code_unit();
      if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if (c >= 0xDC00 && c <= 0xDFFF) {
      fail("half a surrogate pair");
    }
    append_utf8(out, c);
  }

  /// \uXXXX
  std::uint32_t code_unit() {
    const std::string_view digits = text_.substr(std::min(at_ + 2, text_.size())).substr(0, 4);
    std::uint32_t c = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), c, 16);
    if (!starts_with("\\u") || digits.size() < 4 || error != std::errc() ||
        end != digits.data() + 4)
      fail("unknown escape in a string", "write a backslash as \\\\");
    at_ += 6;
    return c;
  }

  Json word() {
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) ||
            std::string_view("+-._").find(text_[end]) != std::string_view::npos))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    Json out;
    if (word.empty()) {
      fail(at_ == text_.size() ? "the text ends, but a value is missing" : "expected a value");
    } else if (word == "true" || word == "false") {
      out = word == "true";
    } else if (word != "null" && !number(word, out)) {
      fail(fmt::format("'{}' is not a value", word), hint_for(word));
    }
    at_ = end;
    return out;
  }

  /// The JSON form of a word of Python, or of a number in the form of another language.
  static std::string hint_for(std::string_view word) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords{
        {{"True", "true"},
         {"TRUE", "true"},
         {"False", "false"},
         {"FALSE", "false"},
         {"None", "null"},
         {"nil", "null"},
         {"nan", "NaN"},
         {"inf", "Infinity"},
         {"-inf", "-Infinity"},
         {"infinity", "Infinity"}}};
    for (const auto& [foreign, ours] : kWords)
      if (word == foreign) return fmt::format("write {}", ours);
    if (const std::string repaired = repaired_number(word); !repaired.empty())
      return fmt::format("write {}", repaired);
    return "write a string in double quotes";
  }

  /// ".001" is 0.001, "1." is 1.0, "+1" is 1, "1_000" is 1000, "007" is 7; "" if it is not a
  /// number.
  static std::string repaired_number(std::string_view word) {
    std::string digits(word.substr(word.starts_with('-') || word.starts_with('+') ? 1 : 0));
    std::erase(digits, '_');
    if (digits.starts_with('.')) digits.insert(0, "0");
    while (digits.size() > 1 && digits[0] == '0' &&
           std::isdigit(static_cast<unsigned char>(digits[1])))
      digits.erase(0, 1);
    if (const std::size_t dot = digits.find('.');
        dot != std::string::npos &&
        (dot + 1 == digits.size() || !std::isdigit(static_cast<unsigned char>(digits[dot + 1]))))
      digits.insert(dot + 1, "0");
    if (word.starts_with('-')) digits.insert(0, "-");
    Json value;
    return number(digits, value) ? digits : "";
  }

  static bool number(std::string_view word, Json& out) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (word == "Infinity" || word == "-Infinity") {
      out = word[0] == '-' ? -kInfinity : kInfinity;
      return true;
    }
    if (word == "NaN") {
      out = std::numeric_limits<double>::quiet_NaN();
      return true;
    }
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    if (digits.empty() || !std::isdigit(static_cast<unsigned char>(digits[0])) ||
        (digits.size() > 1 && digits[0] == '0' && digits[1] != '.' && digits[1] != 'e' &&
         digits[1] != 'E'))
      return false;
    std::int64_t integer = 0;
    const char* const last = word.data() + word.size();
    if (const auto parsed = std::from_chars(word.data(), last, integer);
        parsed.ec == std::errc() && parsed.ptr == last) {
      out = integer;
      return true;
    }
    double real = 0;
    const auto parsed = std::from_chars(word.data(), last, real);
    if (parsed.ptr != last || word.ends_with('.') || word.find(".e") != std::string_view::npos)
      return false;
    if (parsed.ec == std::errc::result_out_of_range)
      real = word.find("e-") == std::string_view::npos && word.find("E-") == std::string_view::npos
                 ? (word[0] == '-' ? -kInfinity : kInfinity)
                 : 0.0;
    out = real;
    return true;
  }

  std::string_view text_;
  Document& document_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string out = pointer + "/";
  for (const char c : key)
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  return out;
}

Document read_document(std::string_view text, std::string file) {
  Document document;
  document.file = std::move(file);
  Reader(text, document).read();
  return document;
}

}  // namespace hgt
