#include "hgtrain/ops/activation.h"

#include "dispatch.h"

namespace hgt {
namespace {

void check_same(const Checks& check, const char* name, const Tensor& x, const Tensor& y) {
  check.device("x", x);
  check.device(name, y);
  check.that(x.contiguous() && y.contiguous(), name, "has gaps");
  check.compute_dtype("x", x);
  check.that(y.dtype() == x.dtype(), name, "is not of x's type");
  check.that(x.numel() == y.numel(), name, "does not have the size of x");
}

void check_gated(const Checks& check, const Tensor& gate_up, const Tensor& y) {
  check.rank("y", y, 2);
  check.compute_dtype("y", y);
  check.contiguous("y", y, {y.size(0), y.size(1)}, y.dtype());
  check.contiguous("gate_up", gate_up, {y.size(0), 2 * y.size(1)}, y.dtype());
}

}  // namespace

void activation_fwd(Activation f, const Tensor& x, const Tensor& y, Stream stream) {
  check_same(Checks("activation_fwd", stream), "y", x, y);
  const Span span("activation_fwd", traffic(x, y));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::activation_fwd,
                    {x.raw(), y.raw(), x.dtype(), x.numel(), f});
  cpu::activation_fwd(f, x, y, stream.pool());
}

void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    Stream stream) {
  check_same(Checks("activation_bwd", stream), "dy", x, dy);
  check_same(Checks("activation_bwd", stream), "dx", x, dx);
  const Span span("activation_bwd", traffic(x, dy, dx));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::activation_bwd,
                    {x.raw(), dy.raw(), dx.raw(), x.dtype(), x.numel(), f});
  cpu::activation_bwd(f, x, dy, dx, stream.pool());
}

void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, Stream stream) {
  check_gated(Checks("gated_activation_fwd", stream), gate_up, y);
  const Span span("gated_activation_fwd", traffic(gate_up, y));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::gated_activation_fwd,
                    {gate_up.raw(), y.raw(), y.dtype(), y.size(0), y.size(1), f});
  cpu::gated_activation_fwd(f, gate_up, y, stream.pool());
}

void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, Stream stream) {
  check_gated(Checks("gated_activation_bwd", stream), gate_up, dy);
  check_gated(Checks("gated_activation_bwd", stream), d_gate_up, dy);
  const Span span("gated_activation_bwd", traffic(gate_up, dy, d_gate_up));
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::gated_activation_bwd,
        {gate_up.raw(), dy.raw(), d_gate_up.raw(), dy.dtype(), dy.size(0), dy.size(1), f});
  cpu::gated_activation_bwd(f, gate_up, dy, d_gate_up, stream.pool());
}

}  // namespace hgt
