#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "hgtrain/ops/cuda_ops_table.h"

#include "device_memory.h"

namespace hgt {

using EmulatedMemory = std::unique_ptr<void, void (*)(void*)>;

inline EmulatedMemory zeros(std::int64_t bytes) {
  void* const made = emulation::allocate(static_cast<std::size_t>(bytes));
  std::memset(made, 0, static_cast<std::size_t>(bytes));
  return EmulatedMemory(made, emulation::release);
}

/// c[m, n] = a[m, k] b[k, n] in fp32 on the emulated device, `shift` elements after the start of
/// their memory: a is 2 everywhere and b is 3.
struct GemmOperands {
  explicit GemmOperands(std::int64_t m = 8, std::int64_t n = 4, std::int64_t k = 12,
                        std::int64_t shift = 0)
      : a(zeros(4 * (m * k + shift))),
        b(zeros(4 * (k * n + shift))),
        c(zeros(4 * (m * n + shift))),
        bias(zeros(4 * n)),
        args{at(a, shift),
             at(b, shift),
             at(c, shift),
             DType::kF32,
             DType::kF32,
             m,
             n,
             k,
             k,
             n,
             n,
             false,
             false,
             false,
             1,
             0} {
    std::fill_n(at(a, shift), m * k, 2.0f);
    std::fill_n(at(b, shift), k * n, 3.0f);
  }
  static float* at(const EmulatedMemory& memory, std::int64_t shift) {
    return static_cast<float*>(memory.get()) + shift;
  }
  std::vector<float> result() const {
    const float* const from = static_cast<const float*>(args.c);
    return {from, from + args.m * args.n};
  }

  EmulatedMemory a, b, c, bias;
  GemmArgs args;
};

}  // namespace hgt
