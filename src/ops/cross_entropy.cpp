#include "hgtrain/ops/cross_entropy.h"

#include "dispatch.h"

namespace hgt {
namespace {

void check_operands(const Checks& check, const Tensor& logits, const Tensor& targets,
                    const Tensor& losses) {
  check.rank("logits", logits, 2);
  const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
  check.compute_dtype("logits", logits);
  check.contiguous("logits", logits, {rows, vocabulary}, logits.dtype());
  check.contiguous("targets", targets, {rows}, DType::kI32);
  check.contiguous("losses", losses, {rows});
}

void check_targets(const Tensor& targets, std::int64_t vocabulary) {
  const std::int32_t* const ids = targets.data<std::int32_t>();
  for (std::int64_t n = 0; n < targets.numel(); ++n)
    if (ids[n] != kIgnoredTarget && (ids[n] < 0 || ids[n] >= vocabulary))
      throw Error(ErrorKind::kData,
                  fmt::format("target {} is outside the vocabulary of {}", ids[n], vocabulary),
                  "the data were made with another tokenizer than the model's");
}

/// No gradient is computed if no gradient scale is given.
void run(const Stream& stream, const Tensor& logits, const Tensor& targets,
         const float* gradient_scale, const Tensor& losses) {
  if (stream.device().is_cpu()) {
    check_targets(targets, logits.size(1));
    return cpu::cross_entropy(logits, targets, gradient_scale, losses, stream.pool());
  }
  run_cuda(stream, &CudaOpsTable::cross_entropy,
           {logits.raw(), logits.dtype(), targets.data<std::int32_t>(), losses.data<float>(),
            logits.size(0), logits.size(1), kIgnoredTarget, gradient_scale ? *gradient_scale : 0,
            gradient_scale != nullptr});
}

}  // namespace

void cross_entropy_fwd(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                       Stream stream) {
  check_operands(Checks("cross_entropy_fwd", stream), logits, targets, losses);
  const Span span("cross_entropy_fwd", traffic(logits));
  run(stream, logits, targets, nullptr, losses);
}

void cross_entropy_fwd_bwd(const Tensor& logits, const Tensor& targets, float gradient_scale,
                           const Tensor& losses, Stream stream) {
  check_operands(Checks("cross_entropy_fwd_bwd", stream), logits, targets, losses);
  const Span span("cross_entropy_fwd_bwd", traffic(logits, logits));
  run(stream, logits, targets, &gradient_scale, losses);
}

}  // namespace hgt
