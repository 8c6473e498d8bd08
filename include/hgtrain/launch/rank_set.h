#pragma once

#include <set>
#include <string>

namespace hgt {

/// Some of the ranks of a job, as users write them: "all", "none", or numbers and ranges of them.
class RankSet {
 public:
  RankSet() = default;  ///< none
  static RankSet all();
  /// "all", "none" or "0,2-5". Error(kConfig) names what is neither a number nor a range.
  static RankSet parse(const std::string& text);

  void add(int rank) { ranks_.insert(rank); }
  bool has(int rank) const { return is_all_ || ranks_.contains(rank); }
  /// Error(kConfig) names the largest rank in it unless that is below `world_size`.
  void require_in(int world_size) const;
  /// How many of the ranks 0 .. `world_size` - 1 it has.
  int count_of(int world_size) const;
  /// The largest number in it; -1 if it has none, or all.
  int largest() const { return ranks_.empty() ? -1 : *ranks_.rbegin(); }
  /// "0,2-5", as parse() takes it.
  std::string text() const;

 private:
  bool is_all_ = false;
  std::set<int> ranks_;
};

}  // namespace hgt
