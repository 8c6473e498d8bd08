#include "hgtrain/ops/linear.h"

#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/gemm.h"

#include "dispatch.h"

namespace hgt {
namespace {

/// c = a b + beta c on a CUDA device, with the epilogue that the module computes with it.
void run_gemm(const Tensor& a, const Tensor& b, float beta, const Tensor& c, GemmEpilogue epilogue,
              const Tensor& bias, const Tensor& pre, Stream stream, const Tensor& added = {}) {
  GemmArgs args = gemm_args(1, a, b, beta, c, stream);
  args.epilogue = epilogue;
  args.bias = bias.raw();
  args.pre = pre.raw();
  args.added = added.raw();
  const Span span("gemm", product_work(a, b));
  run_cuda(stream, &CudaOpsTable::gemm, args);
}

/// Whether the CUDA module's products support this activation as an epilogue.
bool is_epilogue(Activation f, const Stream& stream) {
  return f == Activation::kGeluTanh && !stream.device().is_cpu();
}

}  // namespace

void linear_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                Stream stream) {
  const Span span("linear_fwd");
  if (!bias) return gemm(1, x, w, 0, y, stream);
  const Checks check("linear_fwd", stream);
  check.shape("bias", bias, {y.size(1)}, y.dtype());
  check.shape("y", y, {x.size(0), w.size(1)}, y.dtype());
  if (!stream.device().is_cpu()) return run_gemm(x, w, 0, y, GemmEpilogue::kBias, bias, {}, stream);
  gemm(1, x, w, 0, y, stream);
  const Span bias_span("add_bias", traffic(y, y));
  cpu::add_bias(y, bias, stream.pool());
}

void linear_add_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& added,
                    const Tensor& y, Stream stream) {
  if (stream.device().is_cpu()) {
    linear_fwd(x, w, bias, y, stream);
    return dropout_add(y, added, {}, y, stream);
  }
  const Span span("linear_add_fwd");
  const Checks check("linear_add_fwd", stream);
  if (bias) check.shape("bias", bias, {y.size(1)}, y.dtype());
  check.contiguous("added", added, {x.size(0), w.size(1)}, y.dtype());
  check.contiguous("y", y, {x.size(0), w.size(1)}, y.dtype());
  run_gemm(x, w, 0, y, bias ? GemmEpilogue::kBias : GemmEpilogue::kNone, bias, {}, stream, added);
}

void linear_activation_fwd(Activation f, const Tensor& x, const Tensor& w, const Tensor& bias,
                           const Tensor& pre, const Tensor& y, Stream stream) {
  if (!is_epilogue(f, stream)) {
    linear_fwd(x, w, bias, pre, stream);
    return activation_fwd(f, pre, y, stream);
  }
  const Span span("linear_activation_fwd");
  const Checks check("linear_activation_fwd", stream);
  if (bias) check.shape("bias", bias, {y.size(1)}, y.dtype());
  check.contiguous("pre", pre, {x.size(0), w.size(1)}, y.dtype());
  check.contiguous("y", y, {x.size(0), w.size(1)}, y.dtype());
  run_gemm(x, w, 0, y, GemmEpilogue::kGelu, bias, pre, stream);
}

void linear_bwd_input(const Tensor& dy, const Tensor& w, const Tensor& dx, Stream stream) {
  const Span span("linear_bwd_input");
  gemm(1, dy, w.transposed(), 0, dx, stream);
}

void linear_activation_bwd_input(Activation f, const Tensor& dy, const Tensor& w, const Tensor& pre,
                                 const Tensor& dpre, Stream stream) {
  if (!is_epilogue(f, stream)) {
    linear_bwd_input(dy, w, dpre, stream);
    return activation_bwd(f, pre, dpre, dpre, stream);
  }
  const Span span("linear_activation_bwd_input");
  const Checks check("linear_activation_bwd_input", stream);
  check.contiguous("pre", pre, {dy.size(0), w.size(0)}, dpre.dtype());
  check.contiguous("dpre", dpre, {dy.size(0), w.size(0)}, dpre.dtype());
  run_gemm(dy, w.transposed(), 0, dpre, GemmEpilogue::kGeluBwd, {}, pre, stream);
}

void linear_bwd_weight(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                       Stream stream) {
  const Span span("linear_bwd_weight");
  if (!dbias) return gemm(1, x.transposed(), dy, 1, dw, stream);
  const Checks check("linear_bwd_weight", stream);
  check.shape("dbias", dbias, {dy.size(1)});
  check.shape("dy", dy, {x.size(0), dy.size(1)}, dy.dtype());
  if (!stream.device().is_cpu())
    return run_gemm(x.transposed(), dy, 1, dw, GemmEpilogue::kColumnSums, dbias, {}, stream);
  gemm(1, x.transposed(), dy, 1, dw, stream);
  const Span bias_span("add_column_sums", traffic(dy));
  cpu::add_column_sums(dy, dbias, stream.pool());
}

}  // namespace hgt
