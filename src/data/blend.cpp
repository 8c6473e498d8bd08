#include "blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hgt {

Blend::Blend(std::span<const double> weights, std::int64_t n) : counts_(weights.size()) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    shares.push_back(weights[i] / sum * static_cast<double>(n));
    counts_[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(shares[i]));
  }
  // What rounding left over goes one by one to the file that is furthest from its share.
  std::int64_t left = n - std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  for (const int unit = left < 0 ? -1 : 1; left != 0; left -= unit) {
    std::size_t worst = 0;
    const auto lack = [&](std::size_t i) {
      return unit < 0 && counts_[i] == 1 ? -INFINITY
                                         : unit * (shares[i] - static_cast<double>(counts_[i]));
    };
    for (std::size_t i = 1; i < counts_.size(); ++i)
      if (lack(i) > lack(worst)) worst = i;
    counts_[worst] += unit;
  }
}

/// How many draws of all files stand before draw `draw` of `file`.
std::int64_t Blend::rank(std::size_t file, std::int64_t draw) const {
  std::int64_t before = draw;
  for (std::size_t j = 0; j < counts_.size(); ++j) {
    if (j == file) continue;
    // The draws l of file j that come earlier: (2l + 1) / counts[j] < (2 draw + 1) / counts[file],
    // or equal if j < file.
    const __int128 bound = static_cast<__int128>(2 * draw + 1) * counts_[j] - (j < file ? 0 : 1);
    const auto odd_numbers_up_to = static_cast<std::int64_t>(bound / counts_[file]);
    before += std::min(counts_[j], (odd_numbers_up_to + 1) / 2);
  }
  return before;
}

Blend::Draw Blend::at(std::int64_t position) const {
  for (std::size_t file = 0;; ++file) {
    std::int64_t low = 0, high = counts_[file] - 1;  // rank() rises with the draw
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (rank(file, middle) < position)
        low = middle + 1;
      else
        high = middle;
    }
    if (file + 1 == counts_.size() || rank(file, low) == position) return {file, low};
  }
}

}  // namespace hgt
