#include "fp32_window.h"

#include <algorithm>

#include "hgtrain/base/half.h"
#include "hgtrain/base/philox_lanes.h"

namespace hgt {

Fp32Window::Fp32Window(const Tensor& values, const FlatPiece& part) : part_(part) {
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
  const std::uint64_t stream = rounding_stream(part_.stream, what);
  auto* const to = narrow_.data<BFloat16>();
  WholeElement whole(part_, 0);
  for (std::int64_t begin = 0; begin < count_;) {
    std::uint32_t words[kPhiloxWords], numbers[kBlock];
    philox_lanes(key, stream, static_cast<std::uint64_t>(whole.index / kRoundedByCounter), words);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const std::int64_t counter = i / kRoundedByCounter, half = i % kRoundedByCounter;
      numbers[i] = words[half / 2 * kPhiloxLanes + counter] >> (half % 2 * 16);
    }
    const std::int64_t first = whole.index % kRoundedByCounter;
    const std::int64_t count = std::min({kBlock - first, count_ - begin, whole.run});
    for (std::int64_t i = 0; i < count; ++i)
      to[begin + i] = round_stochastically(copy_[begin + i], numbers[first + i]);
    whole.advance(part_, count);
    begin += count;
  }
}

}  // namespace hgt
