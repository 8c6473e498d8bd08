#include "bpe.h"

#include <queue>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "unicode.h"

namespace hgt {

namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// A letter or what it was merged into, in a doubly linked list.
struct Symbol {
  std::int32_t id;  ///< kNone: merged into its left neighbour
  std::int32_t previous, next;
};

/// A pair that may be merged: the symbol at `at` and the next.
struct Candidate {
  std::int32_t rank, at, id;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
         Options options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  const auto known = [this](const std::string& token) {
    const std::int32_t id = id_of(token);
    if (id < 0)
      throw Error(ErrorKind::kData,
                  fmt::format("\"{}\" is in a merge but not in the vocabulary", token));
    return id;
  };
  merges_.reserve(merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const std::uint64_t key = key_of(known(left), known(right));
    merges_.insert_or_assign(key, Merge{rank++, known(left + right)});
  }
  if (!options_.unk_token.empty()) unk_id_ = known(options_.unk_token);
}

std::int32_t Bpe::id_of(std::string_view token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? kNone : found->second;
}

const Bpe::Merge* Bpe::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::int32_t whole = options_.ignore_merges ? id_of(word) : kNone;
  if (whole != kNone)
    ids.push_back(whole);
  else
    merge_all(letters(word), ids);
}

/// The ids of the characters.
std::vector<std::int32_t> Bpe::letters(std::string_view word) const {
  std::vector<std::int32_t> ids;
  bool unknown = false;  // an unknown token is due before the next known one
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    next_code_point(word, at);
    const std::string_view letter = word.substr(begin, at - begin);
    if (const std::int32_t id = id_of(letter); id != kNone) {
      if (unknown) ids.push_back(unk_id_);
      unknown = false;
      ids.push_back(id);
    } else if (!(options_.byte_fallback && add_bytes(letter, ids)) && unk_id_ != kNone) {
      if (unknown && !options_.fuse_unk) ids.push_back(unk_id_);
      unknown = true;
    }
  }
  if (unknown) ids.push_back(unk_id_);
  return ids;
}

bool Bpe::add_bytes(std::string_view letter, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> bytes;
  for (const char c : letter) {
    bytes.push_back(id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c))));
    if (bytes.back() == kNone) return false;
  }
  ids.insert(ids.end(), bytes.begin(), bytes.end());
  return true;
}

void Bpe::merge_all(std::vector<std::int32_t> letters, std::vector<std::int32_t>& ids) const {
  const auto count = static_cast<std::int32_t>(letters.size());
  std::vector<Symbol> symbols;
  for (std::int32_t i = 0; i < count; ++i)
    symbols.push_back({letters[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : kNone});
  const auto symbol = [&](std::int32_t at) -> Symbol& {
    return symbols[static_cast<std::size_t>(at)];
  };

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](std::int32_t at) {
    if (at == kNone || symbol(at).next == kNone) return;
    if (const Merge* merge = merge_of(symbol(at).id, symbol(symbol(at).next).id))
      candidates.push({merge->rank, at, merge->id});
  };
  for (std::int32_t i = 0; i < count; ++i) consider(i);

  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbol(best.at);
    if (left.id == kNone || left.next == kNone) continue;
    Symbol& right = symbol(left.next);
    // The pair may have changed since; it counts as long as it gives the same token.
    const Merge* merge = merge_of(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;
    left.id = best.id;
    right.id = kNone;
    left.next = right.next;
    if (right.next != kNone) symbol(right.next).previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
  for (const Symbol& s : symbols)
    if (s.id != kNone) ids.push_back(s.id);
}

}  // namespace hgt
