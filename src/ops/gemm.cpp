#include "hgtrain/ops/gemm.h"

#include "checks.h"
#include "cpu_kernels.h"

namespace hgt {

void gemm(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
          Stream stream) {
  const Checks check("gemm");
  for (const Tensor* x : {&a, &b, &c}) {
    check.rank("an operand", *x, 2);
    check.that(x->dtype() == DType::kF32, "an operand", "is not fp32");
    check.that(x->stride(0) == 1 || x->stride(1) == 1, "an operand", "has gaps in both dimensions");
  }
  check.that(a.size(1) == b.size(0), "a", "has not as many columns as b has rows");
  check.that(c.size(0) == a.size(0) && c.size(1) == b.size(1), "c", "has not the product's shape");
  cpu::gemm(alpha, a, b, beta, c, stream.pool());
}

}  // namespace hgt
