#include "hgtrain/ops/sample.h"

#include "dispatch.h"

namespace hgt {

void sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
            double uniform, const Tensor& token, Stream stream) {
  const Checks check("sample", stream);
  check.compute_dtype("logits", logits);
  check.contiguous("logits", logits, {logits.numel()}, logits.dtype());
  check.that(logits.numel() >= 1 && logits.numel() <= kMaxSampledVocabulary, "logits",
             "are none, or more than kMaxSampledVocabulary");
  check.contiguous("token", token, {1}, DType::kI32);
  check.that(temperature >= 0, "temperature", "is not 0 or more");
  check.that(top_k >= 0, "top_k", "is negative");
  check.that(top_p > 0 && top_p <= 1, "top_p", "is not in (0, 1]");
  check.that(uniform >= 0 && uniform < 1, "uniform", "is not in [0, 1)");
  const Span span("sample", traffic(logits));
  std::int32_t* const out = token.data<std::int32_t>();
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::sample,
        {logits.raw(), logits.dtype(), logits.numel(), temperature, top_k, top_p, uniform, out});
  *out = cpu::sample(logits, temperature, top_k, top_p, uniform);
}

}  // namespace hgt
