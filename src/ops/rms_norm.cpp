#include "hgtrain/ops/rms_norm.h"

#include "dispatch.h"

namespace hgt {

namespace {

void check_forward(const Checks& check, const Tensor& x, const Tensor& gain, const Tensor& y,
                   const Tensor& rrms) {
  check.rank("x", x, 3);
  const std::int64_t rows = x.size(0), heads = x.size(1), width = x.size(2);
  check.compute_dtype("x", x);
  check.shape("x", x, {rows, heads, width}, x.dtype());
  check.shape("y", y, {rows, heads, width}, x.dtype());
  check.shape("gain", gain, {width}, x.dtype());
  check.contiguous("rrms", rrms, {rows, heads});
}

RmsNormArgs forward_args(const Tensor& x, const Tensor& gain, float eps, const Tensor& y,
                         const Tensor& rrms) {
  return {head_rows(x), head_rows<void>(y), gain.raw(), x.dtype(), rrms.data<float>(),
          x.size(0),    x.size(1),          x.size(2),  eps};
}

}  // namespace

void rms_norm_fwd(const Tensor& x, const Tensor& gain, float eps, const Tensor& y,
                  const Tensor& rrms, Stream stream) {
  check_forward(Checks("rms_norm_fwd", stream), x, gain, y, rrms);
  const Span span("rms_norm_fwd", traffic(x, y));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::rms_norm_fwd, forward_args(x, gain, eps, y, rrms));
  cpu::rms_norm_fwd(x, gain, eps, y, rrms, stream.pool());
}

void add_rms_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rrms, Stream stream) {
  const Checks check("add_rms_norm_fwd", stream);
  check_forward(check, x, gain, y, rrms);
  check.shape("branch", branch, {x.size(0), x.size(1), x.size(2)}, x.dtype());
  check.shape("sum", sum, {x.size(0), x.size(1), x.size(2)}, x.dtype());
  const Span span("add_rms_norm_fwd", traffic(x, branch, sum, y));
  if (stream.device().is_cpu())
    return cpu::add_rms_norm_fwd(x, branch, gain, eps, sum, y, rrms, stream.pool());
  RmsNormArgs args = forward_args(x, gain, eps, y, rrms);
  args.branch = head_rows(branch);
  args.sum = head_rows<void>(sum);
  run_cuda(stream, &CudaOpsTable::rms_norm_fwd, args);
}

void rms_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& rrms,
                  bool accumulate, const Tensor& dx, const Tensor& dgain, Stream stream) {
  const Checks check("rms_norm_bwd", stream);
  check.rank("x", x, 3);
  const std::int64_t rows = x.size(0), heads = x.size(1), width = x.size(2);
  check.shape("dy", dy, {rows, heads, width}, x.dtype());
  check.compute_dtype("x", x);
  check.shape("x", x, {rows, heads, width}, x.dtype());
  check.shape("dx", dx, {rows, heads, width}, x.dtype());
  check.shape("gain", gain, {width}, x.dtype());
  check.shape("dgain", dgain, {width});
  check.contiguous("rrms", rrms, {rows, heads});
  const Span span("rms_norm_bwd", traffic(dy, x, dx, accumulate ? dx : Tensor()));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::rms_norm_bwd,
                    {head_rows(dy), head_rows(x), head_rows<void>(dx), gain.raw(), x.dtype(),
                     rrms.data<float>(), dgain.data<float>(), rows, heads, width, accumulate});
  cpu::rms_norm_bwd(dy, x, gain, rrms, accumulate, dx, dgain, stream.pool());
}

}  // namespace hgt
