#include "hgtrain/ops/cpu_instructions.h"

namespace hgt {

std::span<const std::string_view> cpu_kernel_instructions() {
  static constexpr std::string_view kNames[] = {
      "sse2",
#ifdef __AVX2__
      "avx2",
#endif
#ifdef __FMA__
      "fma",
#endif
#ifdef __F16C__
      "f16c",
#endif
#ifdef __BMI2__
      "bmi2",
#endif
#ifdef __AVX512F__
      "avx512f",
#endif
#ifdef __AVX512BW__
      "avx512bw",
#endif
#ifdef __AVX512DQ__
      "avx512dq",
#endif
#ifdef __AVX512VL__
      "avx512vl",
#endif
#ifdef __AVX512BF16__
      "avx512_bf16",
#endif
#ifdef __AVX512FP16__
      "avx512_fp16",
#endif
  };
#ifdef __x86_64__
  return kNames;
#else
  return {};
#endif
}

}  // namespace hgt
