#include "hgtrain/ops/dropout.h"

#include "checks.h"
#include "cpu_kernels.h"

namespace hgt {
namespace {

void check_operands(const char* op, const Tensor& x, const Tensor& y, const Dropout& options) {
  const Checks check(op);
  check.that(x.rank() >= 1 && x.dtype() == DType::kF32 && x.contiguous(), "x",
             "is not a contiguous fp32 tensor");
  check.contiguous("y", y.reshaped({y.numel()}), {x.numel()});
  check.that(options.probability >= 0 && options.probability < 1, "probability",
             "is not in [0, 1)");
}

}  // namespace

void dropout(const Tensor& x, const Dropout& options, const Tensor& y, Stream stream) {
  check_operands("dropout", x, y, options);
  cpu::dropout_add({}, x, options, y, stream.pool());
}

void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 Stream stream) {
  check_operands("dropout_add", branch, y, options);
  check_operands("dropout_add", branch, x, options);
  cpu::dropout_add(x, branch, options, y, stream.pool());
}

}  // namespace hgt
