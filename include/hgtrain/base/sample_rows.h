#pragma once

#include <cstdint>

namespace hgt {

/// Which tokens the rows of a tensor are. A rank has `length` tokens of each sample, in one run or
/// in two runs of half as many. The rows are these tokens, in ascending order within a sample, one
/// sample after the other, without the first `first` of them. By default, each row is a whole
/// sample of one token.
struct SampleRows {
  std::int64_t length = 1;          ///< with two runs, an even number
  int runs = 1;                     ///< 1 or 2
  std::int64_t begins[2] = {0, 0};  ///< each run's first token, ascending
  std::int64_t first = 0;

  constexpr std::int64_t run_length() const { return runs == 1 ? length : length / 2; }
  // The sample of a run, and its first token; runs are counted through all samples:
  constexpr std::int64_t sample_of(std::int64_t run) const { return runs == 1 ? run : run / 2; }
  constexpr std::int64_t begin_of(std::int64_t run) const {
    return begins[runs == 2 && run % 2 == 1];
  }
  /// The token that is row t of [0, length) of a sample.
  constexpr std::int64_t token(std::int64_t t) const {
    return t < run_length() ? begins[0] + t : begins[1] + t - run_length();
  }
};

}  // namespace hgt
