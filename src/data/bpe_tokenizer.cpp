#include "bpe_tokenizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "byte_alphabet.h"
#include "unicode.h"
#include "word_cache.h"

namespace hgt {

namespace {

// The last and the first character of a text that may be cut within a character. If the bytes are
// not a whole character, the result is not valid UTF-8.
std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 && (text[--begin] & 0xC0) == 0x80) continue;
  return text.substr(begin);
}

std::string_view first_character(std::string_view text) {
  std::size_t end = 1;
  while (end < std::min<std::size_t>(4, text.size()) && (text[end] & 0xC0) == 0x80) ++end;
  return text.substr(0, end);
}

bool is_one(const Regex& kind, std::string_view character) {
  return !character.empty() && valid_utf8_prefix(character) == character.size() &&
         kind.find(character, 0);
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(TokenizerParts parts, const std::string& end_of_text,
               std::vector<std::pair<std::string, std::string>> files)
      : parts_(std::move(parts)), files_(std::move(files)), letter_("\\p{L}"), solid_("\\S") {
    end_of_text_ = id_of(end_of_text);
  }

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    const bool valid = valid_utf8_prefix(text) == text.size();
    const std::string repaired = valid ? "" : replace_invalid_utf8(text);
    std::vector<std::int32_t> ids;
    if (add_special_tokens) ids = parts_.before;
    const WordCachePool::Lease cache(caches_);
    for (const auto& segment : parts_.added.split(valid ? text : repaired)) {
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        encode_segment(segment.text, *cache, ids);
    }
    if (add_special_tokens) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
    return ids;
  }

  std::span<const std::int32_t> ids_before() const override { return parts_.before; }
  std::span<const std::int32_t> ids_after() const override { return parts_.after; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab_size())
        throw Error(ErrorKind::kData,
                    fmt::format("token id {} is outside the tokenizer's vocabulary of {}", id,
                                vocab_size()));
      text += parts_.bytes[static_cast<std::size_t>(id)];
    }
    const std::string& strip = parts_.decoder.strip;
    for (std::size_t i = 0; i < parts_.decoder.strip_count && text.starts_with(strip); ++i)
      text.erase(0, strip.size());
    return text;
  }

  /// The last of the places that PreTokenizer::cuts_at_white_space names.
  std::size_t safe_cut(std::string_view text) const override {
    if (!parts_.cuts_at_white_space) return 0;
    for (std::size_t at = text.size(); at-- > 1;) {
      const bool white = text[at] == ' ' || text[at] == '\n' || text[at] == '\r';
      if (white && is_one(letter_, last_character(text.substr(0, at)))) return at;
      if (text[at - 1] == '\n' && is_one(letter_, first_character(text.substr(at))) &&
          is_one(solid_, last_character(text.substr(0, at - 1))))
        return at;
    }
    return 0;
  }

  std::string_view kind() const override { return "bpe"; }
  std::int64_t vocab_size() const override { return std::ssize(parts_.bytes); }
  std::int32_t end_of_text() const override { return end_of_text_; }

  std::int32_t id_of(std::string_view token) const override {
    for (const auto& [name, id] : parts_.names)
      if (name == token) return id;
    return parts_.bpe.id_of(token);
  }

  void save(const std::string& folder) const override {
    for (const auto& [name, content] : files_) {
      make_folders(parent_folder(folder + "/" + name));
      write_file_atomically(folder + "/" + name, content);
    }
  }

 private:
  void encode_segment(std::string_view text, WordCache& cache,
                      std::vector<std::int32_t>& ids) const {
    const std::string normalized = parts_.normalize ? parts_.normalize(text) : "";
    for (const auto& segment :
         parts_.normalized_added.split(parts_.normalize ? normalized : text)) {
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        for (const std::string_view word : parts_.pre_tokenizer.split(segment.text).views)
          encode_word(word, cache, ids);
    }
  }

  void encode_word(std::string_view word, WordCache& cache, std::vector<std::int32_t>& ids) const {
    if (const auto known = cache.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = ids.size();
    if (parts_.pre_tokenizer.byte_level()) {
      std::string spelled;
      for (const char c : word) spelled += letter_of(static_cast<unsigned char>(c));
      parts_.bpe.encode(spelled, ids);
    } else {
      parts_.bpe.encode(word, ids);
    }
    cache.insert(word, std::span(ids).subspan(before));
  }

  TokenizerParts parts_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::int32_t end_of_text_ = -1;
  Regex letter_, solid_;  ///< of the same Unicode version as the split patterns
  mutable WordCachePool caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(
    TokenizerParts parts, const std::string& end_of_text,
    std::vector<std::pair<std::string, std::string>> files) {
  return std::make_unique<BpeTokenizer>(std::move(parts), end_of_text, std::move(files));
}

}  // namespace hgt
