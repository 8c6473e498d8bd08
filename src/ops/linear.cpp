#include "hgtrain/ops/linear.h"

#include "hgtrain/ops/gemm.h"

#include "checks.h"
#include "cpu_kernels.h"
#include "cuda_dispatch.h"
#include "work.h"

namespace hgt {

void linear_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                Stream stream) {
  const Span span("linear_fwd");
  if (bias) Checks("linear_fwd", stream).shape("bias", bias, {y.size(1)}, y.dtype());
  gemm(1, x, w, 0, y, stream);
  if (!bias) return;
  const Span bias_span("add_bias", traffic(y, y));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::add_bias,
                    {memory_of(y), memory_of(bias), y.dtype(), y.size(0), y.size(1), y.stride(0)});
  cpu::add_bias(y, bias, stream.pool());
}

void linear_bwd_input(const Tensor& dy, const Tensor& w, const Tensor& dx, Stream stream) {
  const Span span("linear_bwd_input");
  gemm(1, dy, w.transposed(), 0, dx, stream);
}

void linear_bwd_weight(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                       Stream stream) {
  const Span span("linear_bwd_weight");
  if (dbias) Checks("linear_bwd_weight", stream).shape("dbias", dbias, {dy.size(1)});
  gemm(1, x.transposed(), dy, 1, dw, stream);
  if (!dbias) return;
  const Span bias_span("add_column_sums", traffic(dy));
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::add_column_sums,
        {memory_of(dy), dy.dtype(), dbias.data<float>(), dy.size(0), dy.size(1), dy.stride(0)});
  cpu::add_column_sums(dy, dbias, stream.pool());
}

}  // namespace hgt
