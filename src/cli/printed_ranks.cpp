#include "printed_ranks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/hosts.h"

namespace hgt {
namespace {

constexpr int kBoth = 3;

/// The streams of each local rank.
class Streams {
 public:
  Streams(const char* flag, const std::string& text) {
    if (const int of_all = number(text); text.empty() || (of_all >= 0 && of_all <= kBoth)) {
      of_others_ = std::max(0, of_all);
      return;
    }
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
      const std::size_t colon = word.find(':');
      const bool is_pair = colon != std::string::npos;
      const int rank = is_pair ? number(word.substr(0, colon)) : -1;
      const int streams = is_pair ? number(word.substr(colon + 1)) : -1;
      if (rank < 0 || streams < 0 || streams > kBoth)
        throw Error(ErrorKind::kConfig, fmt::format("{} {} names no streams", flag, text),
                    "1 is stdout, 2 stderr, and 3 both: 3, or 0:3,1:1 for local ranks 0 and 1");
      by_rank_[rank] = streams;
    }
  }
  bool are_some() const {
    return of_others_ > 0 ||
           std::ranges::any_of(by_rank_, [](const auto& rank) { return rank.second > 0; });
  }
  bool has(int rank, int stream) const {
    const auto known = by_rank_.find(rank);
    return ((known == by_rank_.end() ? of_others_ : known->second) >> stream) & 1;
  }

 private:
  static int number(const std::string& text) {
    int out = -1;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, out);
    return error == std::errc() && last == end ? out : -1;
  }

  int of_others_ = 0;
  std::map<int, int> by_rank_;
};

}  // namespace

bool asks_for_files(const char* flag, const std::string& streams) {
  return Streams(flag, streams).are_some();
}

std::array<RankSet, 2> printed_ranks(const std::string& filter, const std::string& tee,
                                     const std::string& redirects) {
  const RankSet chosen = filter.empty() ? RankSet::all() : RankSet::parse(filter);
  const Streams printed("--tee", tee), in_files("--redirects", redirects);
  std::array<RankSet, 2> out;
  for (int stream = 0; stream < 2; ++stream)
    for (int rank = 0; rank < kMaxWorkersOfHost; ++rank)
      if (chosen.has(rank) && (printed.has(rank, stream) || !in_files.has(rank, stream)))
        out[static_cast<std::size_t>(stream)].add(rank);
  return out;
}

}  // namespace hgt
