#include "hgtrain/optim/ema.h"

#include "chunks.h"

namespace hgt {

void update_ema(double decay, std::span<const float> values, std::span<float> average,
                ThreadPool& pool) {
  const float kept = static_cast<float>(decay), taken = static_cast<float>(1 - decay);
  for_chunks(pool, {0, std::ssize(average)}, [&](Range range) {
    for (std::int64_t i = range.begin; i < range.end; ++i)
      average[i] = kept * average[i] + taken * values[i];
  });
}

}  // namespace hgt
