#include "host_range.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/text.h"

namespace hgt {
namespace {

constexpr std::size_t kMaxDigits = 9;  // of an int

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// "7" or "01-16".
std::vector<std::string> numbers_in(const std::string& word) {
  const std::size_t dash = word.find('-');
  const std::string first = word.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : word.substr(dash + 1);
  if (!is_number(first) || !is_number(last))
    throw refused(fmt::format("'{}' is neither a number nor a range", word),
                  "write a range as 1-16");
  const int from = std::stoi(first), to = std::stoi(last);
  if (to < from) throw refused(fmt::format("the range {} ends before it begins", word));
  if (to - from >= kMaxHosts)
    throw refused(fmt::format("the range {} has more than {}", word, kMaxHosts));
  std::vector<std::string> out;
  for (int number = from; number <= to; ++number)
    out.push_back(fmt::format("{:0{}}", number, first.size()));
  return out;
}

}  // namespace

std::vector<std::string> split_outside_brackets(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == separator && depth <= 0)
      out.emplace_back();
    else
      out.back() += c;
  }
  for (std::string& word : out) word = trimmed(word);
  return out;
}

std::vector<std::string> expand_names(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos) return {text};
  const std::size_t close = text.find(']', open);
  if (close == std::string::npos) throw refused(fmt::format("'{}' has no ] for its [", text));
  const std::string inside = text.substr(open + 1, close - open - 1);
  if (inside.find(':') != std::string::npos) return {text};
  const std::vector<std::string> ends = expand_names(text.substr(close + 1));
  std::vector<std::string> out;
  for (const std::string& range : split_outside_brackets(inside, ','))
    for (const std::string& number : numbers_in(range)) {
      if (out.size() + ends.size() > kMaxHosts)
        throw refused(fmt::format("'{}' names more than {} hosts", text, kMaxHosts));
      for (const std::string& end : ends) out.push_back(text.substr(0, open) + number + end);
    }
  return out;
}

std::vector<std::string> device_list(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& word : split_outside_brackets(text, ',')) {
    const bool is_odd = std::any_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isspace(c) || std::iscntrl(c);
    });
    if (!is_odd && (word.starts_with("GPU-") || word.starts_with("MIG-")))
      out.push_back(word);
    else
      for (const std::string& number : numbers_in(word))
        out.push_back(std::to_string(std::stoi(number)));
    if (out.size() > kMaxHosts)
      throw refused(fmt::format("'{}' are more than {}", text, kMaxHosts));
  }
  return out;
}

std::vector<int> number_list(const std::string& text) {
  std::vector<int> out;
  for (const std::string& word : split_outside_brackets(text, ','))
    for (const std::string& number : numbers_in(word)) out.push_back(std::stoi(number));
  return out;
}

}  // namespace hgt
