#include "hgtrain/ops/linear.h"

#include "hgtrain/ops/gemm.h"

#include "checks.h"
#include "cpu_kernels.h"

namespace hgt {

void linear_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                Stream stream) {
  if (bias) Checks("linear_fwd").shape("bias", bias, {y.size(1)});
  gemm(1, x, w, 0, y, stream);
  if (bias) cpu::add_bias(y, bias, stream.pool());
}

void linear_bwd_input(const Tensor& dy, const Tensor& w, const Tensor& dx, Stream stream) {
  gemm(1, dy, w.transposed(), 0, dx, stream);
}

void linear_bwd_weight(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                       Stream stream) {
  if (dbias) Checks("linear_bwd_weight").shape("dbias", dbias, {dy.size(1)});
  gemm(1, x.transposed(), dy, 1, dw, stream);
  if (dbias) cpu::add_column_sums(dy, dbias, stream.pool());
}

}  // namespace hgt
