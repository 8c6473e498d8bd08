#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hgt {

/// Hash that finds a std::string by std::string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

/// The `model` of a tokenizer.json: byte-pair encoding of one word at a time. The pair of
/// neighbours with the lowest rank is merged, the leftmost of equals, until none has a rank.
/// Thread-safe.
class Bpe {
 public:
  using Vocabulary = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;
  struct Options {
    std::string unk_token = "";  ///< "": what is not in the vocabulary is left out
    bool fuse_unk = false;       ///< neighbouring unknowns become one
    bool byte_fallback = false;  ///< unknown characters become their bytes, "<0x0A>"
    /// A word in the vocabulary is that token, even if the merges differ.
    bool ignore_merges = false;
  };
  /// Merges in order of rank. Error(kData) names one whose parts or result are not in the
  /// vocabulary.
  Bpe(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
      Options options);

  /// Appends the ids of a word, valid UTF-8 in the vocabulary's spelling. O(n log n).
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;
  std::int32_t id_of(std::string_view token) const;  ///< -1 if there is none
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    std::int32_t rank, id;
  };
  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> letters(std::string_view word) const;
  bool add_bytes(std::string_view letter, std::vector<std::int32_t>& ids) const;
  void merge_all(std::vector<std::int32_t> letters, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  Options options_;
  std::int32_t unk_id_ = -1;
};

}  // namespace hgt
