#include "hgtrain/ops/cross_entropy.h"

#include <algorithm>

#include "dispatch.h"

namespace hgt {
namespace {

void check_logits(const Checks& check, const Tensor& logits, const Tensor& targets) {
  check.rank("logits", logits, 2);
  check.compute_dtype("logits", logits);
  check.contiguous("logits", logits, {logits.size(0), logits.size(1)}, logits.dtype());
  check.contiguous("targets", targets, {logits.size(0)}, DType::kI32);
}

void check_operands(const Checks& check, const Tensor& logits, const Tensor& targets,
                    const Tensor& losses) {
  check_logits(check, logits, targets);
  check.contiguous("losses", losses, {logits.size(0)});
}

/// The columns that are no padding.
std::int64_t columns_of(const Checks& check, const Tensor& logits,
                        std::optional<std::int64_t> vocabulary) {
  const std::int64_t columns = vocabulary.value_or(logits.size(1));
  check.that(columns >= 1 && columns <= logits.size(1), "vocabulary", "does not fit the logits");
  return columns;
}

void check_targets(const Tensor& targets, std::int64_t vocabulary) {
  const std::int32_t* const ids = targets.data<std::int32_t>();
  for (std::int64_t n = 0; n < targets.numel(); ++n)
    if (ids[n] != kIgnoredTarget && (ids[n] < 0 || ids[n] >= vocabulary))
      throw Error(ErrorKind::kData,
                  fmt::format("target {} is outside the vocabulary of {}", ids[n], vocabulary),
                  "prepare the data with the model's tokenizer");
}

/// No gradient is computed if no gradient scale is given.
void run(const Stream& stream, const Tensor& logits, std::int64_t vocabulary, const Tensor& targets,
         const float* gradient_scale, const Tensor& losses) {
  if (stream.device().is_cpu()) {
    check_targets(targets, vocabulary);
    return cpu::cross_entropy(logits, vocabulary, targets, gradient_scale, losses, stream.pool());
  }
  run_cuda(stream, &CudaOpsTable::cross_entropy,
           {logits.raw(), logits.dtype(), targets.data<std::int32_t>(), losses.data<float>(),
            logits.size(0), logits.size(1), vocabulary, kIgnoredTarget,
            gradient_scale ? *gradient_scale : 0, gradient_scale != nullptr});
}

CrossEntropyPartArgs part_args(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                               const Tensor& parts) {
  const std::int64_t columns = std::clamp(part.size - part.first, std::int64_t{0}, logits.size(1));
  return {logits.raw(),
          logits.dtype(),
          targets.data<std::int32_t>(),
          parts.data<float>(),
          logits.size(0),
          logits.size(1),
          columns,
          part.first,
          part.size,
          kIgnoredTarget};
}

}  // namespace

void cross_entropy_fwd(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                       Stream stream, std::optional<std::int64_t> vocabulary) {
  const Checks check("cross_entropy_fwd", stream);
  check_operands(check, logits, targets, losses);
  const Span span("cross_entropy_fwd", traffic(logits));
  run(stream, logits, columns_of(check, logits, vocabulary), targets, nullptr, losses);
}

void cross_entropy_fwd_bwd(const Tensor& logits, const Tensor& targets, float gradient_scale,
                           const Tensor& losses, Stream stream,
                           std::optional<std::int64_t> vocabulary) {
  const Checks check("cross_entropy_fwd_bwd", stream);
  check_operands(check, logits, targets, losses);
  const Span span("cross_entropy_fwd_bwd", traffic(logits, logits));
  run(stream, logits, columns_of(check, logits, vocabulary), targets, &gradient_scale, losses);
}

void cross_entropy_part(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                        const Tensor& out, Stream stream) {
  const Checks check("cross_entropy_part", stream);
  check_logits(check, logits, targets);
  check.contiguous("out", out, {logits.size(0), 3});
  const Span span("cross_entropy_part", traffic(logits));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::cross_entropy_part,
                    part_args(logits, targets, part, out));
  check_targets(targets, part.size);
  cpu::cross_entropy_part(logits, targets, part, out, stream.pool());
}

void cross_entropy_finish(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                          const Tensor& parts, const float* gradient_scale, const Tensor& losses,
                          Stream stream) {
  const Checks check("cross_entropy_finish", stream);
  check_operands(check, logits, targets, losses);
  check.rank("parts", parts, 3);
  check.contiguous("parts", parts, {parts.size(0), logits.size(0), 3});
  const Span span("cross_entropy_finish",
                  gradient_scale ? traffic(logits, logits) : traffic(parts));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::cross_entropy_finish,
                    {part_args(logits, targets, part, parts), parts.size(0), losses.data<float>(),
                     gradient_scale ? *gradient_scale : 0, gradient_scale != nullptr});
  cpu::cross_entropy_finish(logits, targets, part, parts, gradient_scale, losses, stream.pool());
}

}  // namespace hgt
