#include "added_tokens.h"

#include <algorithm>

#include "unicode.h"

namespace hgt {

namespace {

unsigned char first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.content.front());
}

bool word_ends_at(std::string_view text, std::size_t at) {
  return at > 0 && is_word(previous_code_point(text, at));
}

bool word_starts_at(std::string_view text, std::size_t at) {
  return at < text.size() && is_word(next_code_point(text, at));
}

/// Start of the white space that ends at `at`.
std::size_t space_before(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next > 0; at = next)
    if (!is_white_space(previous_code_point(text, next))) break;
  return at;
}

std::size_t space_behind(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next < text.size(); at = next)
    if (!is_white_space(next_code_point(text, next))) break;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    return first_byte(a) != first_byte(b) ? first_byte(a) < first_byte(b)
                                          : a.content.size() > b.content.size();
  });
  for (std::size_t i = tokens_.size(); i-- > 0;) {
    auto& [begin, end] = with_[first_byte(tokens_[i])];
    if (begin == end) end = i + 1;
    begin = i;
  }
}

const AddedToken* AddedTokens::match_at(std::string_view text, std::size_t at) const {
  const auto [begin, end] = with_[static_cast<unsigned char>(text[at])];
  for (std::size_t i = begin; i < end; ++i)
    if (text.substr(at).starts_with(tokens_[i].content)) return &tokens_[i];
  return nullptr;
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    if (begin < end) segments.push_back({text.substr(begin, end - begin), id});
    done = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = match_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at += token->content.size();  // a match that is not a single word is skipped as a whole
    if (token->single_word && (word_ends_at(text, begin) || word_starts_at(text, at))) continue;
    if (token->lstrip) begin = std::max(space_before(text, begin), done);
    const std::size_t end = token->rstrip ? space_behind(text, at) : at;
    add(done, begin, -1);
    add(begin, end, token->id);
  }
  add(done, text.size(), -1);
  return segments;
}

}  // namespace hgt
