#include <algorithm>
#include <vector>

#include "hgtrain/base/element.h"

#include "cpu_kernels.h"
#include "sample_places.h"

namespace hgt::cpu {
namespace {

using Places = std::vector<std::uint64_t>;

/// Removes the tokens after the k-th place and its ties.
void keep_top(std::int64_t k, Places& places) {
  if (k == 0 || k >= std::ssize(places)) return;
  const auto kth = places.begin() + (k - 1);
  std::nth_element(places.begin(), kth, places.end());
  std::erase_if(places, [end = end_of_ties(*kth)](std::uint64_t place) { return place >= end; });
}

}  // namespace

std::int32_t sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
                    double uniform) {
  Places places;
  places.reserve(static_cast<std::size_t>(logits.numel()));
  std::int32_t drawn = -1;
  visit_element(logits.dtype(), [&]<class T>(T) {
    const T* const values = logits.data<T>();
    for (std::int64_t i = 0; i < logits.numel(); ++i) places.push_back(place_of(values[i], i));
    const std::uint64_t first = *std::min_element(places.begin(), places.end());
    if (can_come(first)) drawn = token_of(first);
    if (drawn < 0 || temperature == 0) return;

    keep_top(top_k, places);
    std::sort(places.begin(), places.end());
    const float best = values[drawn];
    const auto mass = [&](std::uint64_t place) {
      return mass_of((best - static_cast<float>(values[token_of(place)])) / temperature);
    };
    // Finds the place that `left` falls on; `left` becomes its offset there.
    const auto find = [&](std::uint64_t& left) {
      auto place = places.begin();
      while (left >= mass(*place)) left -= mass(*place++);
      return *place;
    };
    std::uint64_t total = 0;
    for (const std::uint64_t place : places) total += mass(place);
    if (top_p < 1) {
      const std::uint64_t last = least_mass(top_p, total) - 1;
      std::uint64_t left = last;
      const std::uint64_t place = find(left);
      total = last - left + mass(place);
    }
    std::uint64_t left = drawn_mass(uniform, total);
    drawn = token_of(find(left));
  });
  return drawn;
}

}  // namespace hgt::cpu
