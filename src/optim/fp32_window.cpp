#include "fp32_window.h"

#include <algorithm>

#include "hgtrain/base/half.h"
#include "hgtrain/base/philox_lanes.h"

namespace hgt {

Fp32Window::Fp32Window(const Tensor& values, std::int64_t first) : first_(first) {
  if (!values) return;
  if (values.dtype() == DType::kF32) {
    data_ = values.data<float>();
    return;
  }
  narrow_ = values;
  count_ = values.numel();
  data_ = copy_;
  const auto* const from = values.data<BFloat16>();
  for (std::int64_t i = 0; i < count_; ++i) copy_[i] = from[i];
}

void Fp32Window::write_back(std::uint64_t key, Rounded what) const {
  if (!narrow_) return;
  constexpr std::int64_t kBlock = kPhiloxLanes * kRoundedByCounter;
  auto* const to = narrow_.data<BFloat16>();
  for (std::int64_t begin = 0; begin < count_; begin += kBlock) {
    std::uint32_t words[kPhiloxWords], numbers[kBlock];
    philox_lanes(key, static_cast<std::uint64_t>(what),
                 static_cast<std::uint64_t>((first_ + begin) / kRoundedByCounter), words);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const std::int64_t counter = i / kRoundedByCounter, half = i % kRoundedByCounter;
      numbers[i] = words[half / 2 * kPhiloxLanes + counter] >> (half % 2 * 16);
    }
    const std::int64_t count = std::min(kBlock, count_ - begin);
    for (std::int64_t i = begin; i < begin + count; ++i)
      to[i] = round_stochastically(copy_[i], numbers[i - begin]);
  }
}

}  // namespace hgt
