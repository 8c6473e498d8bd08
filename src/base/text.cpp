#include "hgtrain/base/text.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hgt {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::string shortened(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string listed(const std::vector<std::string>& words, std::size_t max_words) {
  const std::size_t shown = std::min(words.size(), max_words);
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(shown);
  const std::string rest =
      shown < words.size() ? fmt::format(" and {} more", words.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(words.begin(), end, ", "), rest);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

namespace {

/// Optimal string alignment distance (Damerau-Levenshtein without repeated edits of a substring);
/// `limit` if it is that or more.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  std::size_t smallest_above = 0;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t smallest = row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
      smallest = std::min(smallest, row[j]);
    }
    if (std::min(smallest, smallest_above) >= limit)
      return limit;  // a cell follows from these two rows
    smallest_above = smallest;
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return nearest(word, candidates,
                 word.size() <= 4 ? 1 : std::max<std::size_t>(2, word.size() / 3));
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates,
                    std::size_t max_distance) {
  const std::string wanted = lower(word);
  std::string best;
  std::size_t best_distance = max_distance + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, lower(candidate), best_distance);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace hgt
