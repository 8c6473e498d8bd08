#include "hgtrain/ops/cross_entropy.h"

#include "checks.h"
#include "cpu_kernels.h"

namespace hgt {
namespace {

void check_operands(const char* op, const Tensor& logits, const Tensor& targets,
                    const Tensor& losses) {
  const Checks check(op);
  check.rank("logits", logits, 2);
  const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
  check.contiguous("logits", logits, {rows, vocabulary});
  check.contiguous("targets", targets, {rows}, DType::kI32);
  check.contiguous("losses", losses, {rows});
  const std::int32_t* const ids = targets.data<std::int32_t>();
  for (std::int64_t n = 0; n < rows; ++n)
    if (ids[n] != kIgnoredTarget && (ids[n] < 0 || ids[n] >= vocabulary))
      throw Error(ErrorKind::kData,
                  fmt::format("target {} is outside the vocabulary of {}", ids[n], vocabulary),
                  "the data were made with another tokenizer than the model's");
}

}  // namespace

void cross_entropy_fwd(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                       Stream stream) {
  check_operands("cross_entropy_fwd", logits, targets, losses);
  cpu::cross_entropy(logits, targets, nullptr, losses, stream.pool());
}

void cross_entropy_fwd_bwd(const Tensor& logits, const Tensor& targets, float gradient_scale,
                           const Tensor& losses, Stream stream) {
  check_operands("cross_entropy_fwd_bwd", logits, targets, losses);
  cpu::cross_entropy(logits, targets, &gradient_scale, losses, stream.pool());
}

}  // namespace hgt
