#include "fp32_window.h"

#include <algorithm>

#include "hgtrain/base/half.h"
#include "hgtrain/base/philox_lanes.h"

namespace hgt {

Fp32Window::Fp32Window(const Tensor& flat, Range range) : range_(range) {
  if (!flat) return;
  if (flat.dtype() == DType::kF32) {
    data_ = flat.data<float>() + range.begin;
    return;
  }
  narrow_ = flat;
  data_ = copy_;
  const auto* const from = flat.data<BFloat16>() + range.begin;
  for (std::int64_t i = 0; i < range.size(); ++i) copy_[i] = from[i];
}

void Fp32Window::write_back(std::uint64_t key, Rounded what) const {
  if (!narrow_) return;
  constexpr std::int64_t kBlock = kPhiloxLanes * kRoundedByCounter;
  auto* const to = narrow_.data<BFloat16>() + range_.begin;
  for (std::int64_t begin = 0; begin < range_.size(); begin += kBlock) {
    std::uint32_t words[kPhiloxWords], numbers[kBlock];
    philox_lanes(key, static_cast<std::uint64_t>(what),
                 static_cast<std::uint64_t>((range_.begin + begin) / kRoundedByCounter), words);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const std::int64_t counter = i / kRoundedByCounter, half = i % kRoundedByCounter;
      numbers[i] = words[half / 2 * kPhiloxLanes + counter] >> (half % 2 * 16);
    }
    const std::int64_t count = std::min(kBlock, range_.size() - begin);
    for (std::int64_t i = begin; i < begin + count; ++i)
      to[i] = round_stochastically(copy_[i], numbers[i - begin]);
  }
}

}  // namespace hgt
