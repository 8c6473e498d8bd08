#include "hgtrain/launch/rank_set.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "host_range.h"

namespace hgt {

RankSet RankSet::all() {
  RankSet out;
  out.is_all_ = true;
  return out;
}

RankSet RankSet::parse(const std::string& text) {
  if (text == "all") return all();
  RankSet out;
  if (text == "none") return out;
  try {
    for (const int rank : number_list(text)) out.add(rank);
  } catch (Error& e) {
    throw Error(ErrorKind::kConfig, fmt::format("'{}' names no ranks: {}", text, e.message()),
                "ranks are all, none, or numbers and ranges: 0,2-5");
  }
  return out;
}

void RankSet::require_in(int world_size) const {
  if (largest() < world_size) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("there is no rank {} in a job of {}", largest(),
                          world_size == 1 ? "one rank, which is rank 0"
                                          : fmt::format("ranks 0-{}", world_size - 1)),
              "name some of these, or start more");
}

int RankSet::count_of(int world_size) const {
  if (is_all_) return world_size;
  return static_cast<int>(std::distance(ranks_.begin(), ranks_.lower_bound(world_size)));
}

std::string RankSet::text() const {
  if (is_all_) return "all";
  std::string out;
  for (auto rank = ranks_.begin(); rank != ranks_.end();) {
    const int first = *rank;
    int last = first;
    while (++rank != ranks_.end() && *rank == last + 1) ++last;
    out += out.empty() ? "" : ",";
    out += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return out.empty() ? "none" : out;
}

}  // namespace hgt
