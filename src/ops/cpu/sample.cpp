#include <algorithm>
#include <vector>

#include "hgtrain/base/element.h"

#include "../sample_keys.h"
#include "kernels.h"

namespace hgt::cpu {
namespace {

using SortKeys = std::vector<std::uint64_t>;

/// Removes the tokens after the k-th key and its ties.
void keep_top(std::int64_t k, SortKeys& keys) {
  if (k == 0 || k >= std::ssize(keys)) return;
  const auto kth = keys.begin() + (k - 1);
  std::nth_element(keys.begin(), kth, keys.end());
  std::erase_if(keys, [end = end_of_ties(*kth)](std::uint64_t key) { return key >= end; });
}

}  // namespace

std::int32_t sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
                    double uniform) {
  SortKeys keys;
  keys.reserve(static_cast<std::size_t>(logits.numel()));
  std::int32_t drawn = -1;
  visit_element(logits.dtype(), [&]<class T>(T) {
    const T* const values = logits.data<T>();
    for (std::int64_t i = 0; i < logits.numel(); ++i) keys.push_back(sort_key(values[i], i));
    const std::uint64_t first = *std::min_element(keys.begin(), keys.end());
    if (is_finite_distribution(first)) drawn = token_of(first);
    if (drawn < 0 || temperature == 0) return;

    keep_top(top_k, keys);
    std::sort(keys.begin(), keys.end());
    const float best = values[drawn];
    const auto mass = [&](std::uint64_t key) {
      return mass_of((best - static_cast<float>(values[token_of(key)])) / temperature);
    };
    // Finds the key that `left` falls on; `left` becomes its offset there.
    const auto find = [&](std::uint64_t& left) {
      auto key = keys.begin();
      while (left >= mass(*key)) left -= mass(*key++);
      return *key;
    };
    std::uint64_t total = 0;
    for (const std::uint64_t key : keys) total += mass(key);
    if (top_p < 1) {
      const std::uint64_t last = min_mass(top_p, total) - 1;
      std::uint64_t left = last;
      const std::uint64_t key = find(left);
      total = last - left + mass(key);
    }
    std::uint64_t left = drawn_mass(uniform, total);
    drawn = token_of(find(left));
  });
  return drawn;
}

}  // namespace hgt::cpu
