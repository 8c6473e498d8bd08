#include "hgtrain/ops/activation.h"

#include "checks.h"
#include "cpu_kernels.h"

namespace hgt {
namespace {

void check_same(const Checks& check, const char* name, const Tensor& x, const Tensor& y) {
  check.that(x.contiguous() && y.contiguous(), name, "has gaps");
  check.that(x.dtype() == DType::kF32 && y.dtype() == DType::kF32, name, "is not fp32");
  check.that(x.numel() == y.numel(), name, "has another size than x");
}

void check_gated(const char* op, const Tensor& gate_up, const Tensor& y) {
  const Checks check(op);
  check.rank("y", y, 2);
  check.contiguous("y", y, {y.size(0), y.size(1)});
  check.contiguous("gate_up", gate_up, {y.size(0), 2 * y.size(1)});
}

}  // namespace

void activation_fwd(Activation f, const Tensor& x, const Tensor& y, Stream stream) {
  check_same(Checks("activation_fwd"), "y", x, y);
  cpu::activation_fwd(f, x, y, stream.pool());
}

void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    Stream stream) {
  check_same(Checks("activation_bwd"), "dy", x, dy);
  check_same(Checks("activation_bwd"), "dx", x, dx);
  cpu::activation_bwd(f, x, dy, dx, stream.pool());
}

void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, Stream stream) {
  check_gated("gated_activation_fwd", gate_up, y);
  cpu::gated_activation_fwd(f, gate_up, y, stream.pool());
}

void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, Stream stream) {
  check_gated("gated_activation_bwd", gate_up, dy);
  check_gated("gated_activation_bwd", d_gate_up, dy);
  cpu::gated_activation_bwd(f, gate_up, dy, d_gate_up, stream.pool());
}

}  // namespace hgt
