#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hgtrain/parallel/range.h"

namespace hgt {

/// A rank's place in its tensor-parallel group.
struct TensorRank {
  int rank = 0;
  int size = 1;
};

/// How tensor parallelism cuts a parameter: along `axis`, each of its `sections` equal sections is
/// cut into `parts` equal parts. The last parts may be shorter or empty; in memory they are padded
/// with zeros. Tensor rank t of T has part t * parts / T of each section; with parts = 1 every rank
/// has all of it.
struct Split {
  int axis = 0;
  int sections = 1;
  std::int64_t parts = 1;

  std::int64_t part_of(TensorRank at) const { return at.rank * parts / at.size; }
  /// Whether a rank is the first of those that have the same part. Only that rank saves the part
  /// and counts it in a norm.
  bool is_first(TensorRank at) const {
    return at.rank == 0 || part_of({at.rank - 1, at.size}) != part_of(at);
  }
};

/// Where the elements of a rank's part lie in the whole parameter. The part consists of chunks of
/// `chunk` elements. Chunk c begins at element c * period + begin of the whole, and its first
/// `used` elements are there; the others are padding. By default the part is the whole.
struct Placement {
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t chunk = kAll;
  std::int64_t period = kAll;
  std::int64_t begin = 0;
  std::int64_t used = kAll;

  /// Elements that are neighbours both in the part and in the whole.
  struct Run {
    std::int64_t local = 0;
    std::int64_t whole = 0;
    std::int64_t size = 0;
  };
  /// Calls visit(run) in ascending order for the elements `local` of the part, as far as they lie
  /// in `whole`.
  template <class Visit>
  void for_each_run(Range local, Range whole, const Visit& visit) const {
    const auto first = std::max(local.begin / chunk, whole.begin / period);
    for (std::int64_t c = first; c * chunk < local.end && c * period < whole.end; ++c) {
      const std::int64_t shift = c * period + begin - c * chunk;
      const Range run{std::max({local.begin, c * chunk, whole.begin - shift}),
                      std::min({local.end, c * chunk + used, whole.end - shift})};
      if (run.size() > 0) visit(Run{run.begin, run.begin + shift, run.size()});
    }
  }
  template <class Visit>
  void for_each_run(Range local, const Visit& visit) const {
    for_each_run(local, {0, kAll}, visit);
  }
};

}  // namespace hgt
