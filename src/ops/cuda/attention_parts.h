#pragma once

#include <cstdint>

namespace hgt {

/// How much of attention over cuDNN one launch computes: some samples with all their heads, or one
/// sample with some key heads and the query heads that read them.
struct AttentionPart {
  std::int64_t samples, key_heads;

  template <class Shape>
  std::int64_t heads(const Shape& s) const {
    return key_heads * (s.heads / s.key_heads);
  }
};

/// The limit of a launch's temporary memory, if smaller parts can keep to it.
constexpr std::int64_t kAttentionPartBytes = 256 << 20;

/// The largest divisor of `count` that is at most `most`; at least 1.
constexpr std::int64_t divisor_up_to(std::int64_t count, std::int64_t most) {
  std::int64_t part = most < count ? most : count;
  while (part > 1 && count % part != 0) --part;
  return part < 1 ? 1 : part;
}

/// The forward is one part. cuDNN's deterministic backward writes a matrix of 16 bits, queries x
/// keys, for each head: parts keep that small, for any batch.
template <class Shape>
constexpr AttentionPart attention_part(const Shape& s) {
  if (!s.backward) return {s.batch, s.key_heads};
  const std::int64_t rows = (s.length + 127) / 128 * 128;
  const std::int64_t key_head_bytes = 2 * rows * rows * (s.heads / s.key_heads);
  const std::int64_t samples = kAttentionPartBytes / (key_head_bytes * s.key_heads);
  if (samples >= 1) return {divisor_up_to(s.batch, samples), s.key_heads};
  return {1, divisor_up_to(s.key_heads, kAttentionPartBytes / key_head_bytes)};
}

}  // namespace hgt
