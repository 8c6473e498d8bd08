#include "hgtrain/ops/layer_norm.h"

#include "dispatch.h"

namespace hgt {

namespace {

void check_forward(const Checks& check, const Tensor& x, const Tensor& gain, const Tensor& bias,
                   const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  check.rank("x", x, 2);
  const std::int64_t rows = x.size(0), width = x.size(1);
  check.compute_dtype("x", x);
  check.contiguous("x", x, {rows, width}, x.dtype());
  check.contiguous("y", y, {rows, width}, x.dtype());
  check.shape("gain", gain, {width}, x.dtype());
  check.shape("bias", bias, {width}, x.dtype());
  check.shape("mean", mean, {rows});
  check.shape("rstd", rstd, {rows});
}

LayerNormArgs forward_args(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                           const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  return {
      x.raw(),   gain.raw(), bias.raw(), y.raw(), x.dtype(), mean.data<float>(), rstd.data<float>(),
      x.size(0), x.size(1),  eps};
}

}  // namespace

void layer_norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                    const Tensor& y, const Tensor& mean, const Tensor& rstd, Stream stream) {
  check_forward(Checks("layer_norm_fwd", stream), x, gain, bias, y, mean, rstd);
  const Span span("layer_norm_fwd", traffic(x, y));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::layer_norm_fwd,
                    forward_args(x, gain, bias, eps, y, mean, rstd));
  cpu::layer_norm_fwd(x, gain, bias, eps, y, mean, rstd, stream.pool());
}

void add_layer_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain,
                        const Tensor& bias, float eps, const Tensor& sum, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream stream) {
  const Checks check("add_layer_norm_fwd", stream);
  check_forward(check, x, gain, bias, y, mean, rstd);
  check.contiguous("branch", branch, {x.size(0), x.size(1)}, x.dtype());
  check.contiguous("sum", sum, {x.size(0), x.size(1)}, x.dtype());
  const Span span("add_layer_norm_fwd", traffic(x, branch, sum, y));
  if (stream.device().is_cpu())
    return cpu::add_layer_norm_fwd(x, branch, gain, bias, eps, sum, y, mean, rstd, stream.pool());
  LayerNormArgs args = forward_args(x, gain, bias, eps, y, mean, rstd);
  args.branch = branch.raw();
  args.sum = sum.raw();
  run_cuda(stream, &CudaOpsTable::layer_norm_fwd, args);
}

void layer_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
                    const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
                    const Tensor& dbias, Stream stream) {
  const Checks check("layer_norm_bwd", stream);
  check.rank("x", x, 2);
  const std::int64_t rows = x.size(0), width = x.size(1);
  check.contiguous("dy", dy, {rows, width}, x.dtype());
  check.compute_dtype("x", x);
  check.contiguous("x", x, {rows, width}, x.dtype());
  check.contiguous("dx", dx, {rows, width}, x.dtype());
  check.shape("gain", gain, {width}, x.dtype());
  check.shape("dgain", dgain, {width});
  check.shape("dbias", dbias, {width});
  check.shape("mean", mean, {rows});
  check.shape("rstd", rstd, {rows});
  const Span span("layer_norm_bwd", traffic(dy, x, dx, accumulate ? dx : Tensor()));
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::layer_norm_bwd,
        {dy.raw(), x.raw(), gain.raw(), dx.raw(), x.dtype(), mean.data<float>(), rstd.data<float>(),
         dgain.data<float>(), dbias.data<float>(), rows, width, accumulate});
  cpu::layer_norm_bwd(dy, x, gain, mean, rstd, accumulate, dx, dgain, dbias, stream.pool());
}

}  // namespace hgt
