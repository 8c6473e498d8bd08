#include "hgtrain/ops/norm.h"

#include "dispatch.h"

namespace hgt {
namespace {

std::int64_t heads_of(const Tensor& x) {
  return x.rank() == 3 ? x.size(1) : 1;
}

/// Throws unless `rows` has a row for each of x's, of the same width.
void check_rows(const Checks& check, const char* name, const Tensor& rows, const Tensor& x) {
  if (x.rank() == 2) return check.shape(name, rows, {x.size(0), x.size(1)}, x.dtype());
  check.shape(name, rows, {x.size(0), x.size(1), x.size(2)}, x.dtype());
}

/// Throws unless `numbers` has a number for each of x's rows.
void check_numbers(const Checks& check, const char* name, const Tensor& numbers, const Tensor& x) {
  if (x.rank() == 2) return check.contiguous(name, numbers, {x.size(0)});
  check.contiguous(name, numbers, {x.size(0), x.size(1)});
}

void check_norm(const Checks& check, const Tensor& x, const Tensor& gain, const Tensor& mean,
                const Tensor& rstd) {
  check.that(x.rank() == 2 || x.rank() == 3, "x", "has the wrong number of dimensions");
  check.compute_dtype("x", x);
  check_rows(check, "x", x, x);
  check.shape("gain", gain, {x.size(-1)}, x.dtype());
  if (mean) check_numbers(check, "mean", mean, x);
  check_numbers(check, "rstd", rstd, x);
}

/// Without a branch, there is no sum.
void forward(const char* op, const Tensor& x, const Tensor& branch, const Tensor& gain,
             const Tensor& bias, float eps, const Tensor& sum, const Tensor& y, const Tensor& mean,
             const Tensor& rstd, Stream stream) {
  const Checks check(op, stream);
  check_norm(check, x, gain, mean, rstd);
  check_rows(check, "y", y, x);
  check.that(!bias == !mean, "mean", "is given without a bias, or the bias without it");
  if (bias) check.shape("bias", bias, {x.size(-1)}, x.dtype());
  const Span span(op, traffic(x, branch, sum, y));
  if (stream.device().is_cpu())
    return cpu::norm_fwd(x, branch, gain, bias, eps, sum, y, mean, rstd, stream.pool());
  run_cuda(stream, &CudaOpsTable::norm_fwd,
           {head_rows(x), head_rows(branch), head_rows<void>(sum), head_rows<void>(y), gain.raw(),
            bias.raw(), x.dtype(), data_or_null<float>(mean), rstd.data<float>(), x.size(0),
            heads_of(x), x.size(-1), eps});
}

}  // namespace

void norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps, const Tensor& y,
              const Tensor& mean, const Tensor& rstd, Stream stream) {
  forward(bias ? "layer_norm_fwd" : "rms_norm_fwd", x, {}, gain, bias, eps, {}, y, mean, rstd,
          stream);
}

void add_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, const Tensor& bias,
                  float eps, const Tensor& sum, const Tensor& y, const Tensor& mean,
                  const Tensor& rstd, Stream stream) {
  const char* const op = bias ? "add_layer_norm_fwd" : "add_rms_norm_fwd";
  const Checks check(op, stream);
  check.that(x.rank() == 2 || x.rank() == 3, "x", "has the wrong number of dimensions");
  check_rows(check, "branch", branch, x);
  check_rows(check, "sum", sum, x);
  forward(op, x, branch, gain, bias, eps, sum, y, mean, rstd, stream);
}

void norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
              const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
              const Tensor& dbias, Stream stream) {
  const char* const op = mean ? "layer_norm_bwd" : "rms_norm_bwd";
  const Checks check(op, stream);
  check_norm(check, x, gain, mean, rstd);
  check_rows(check, "dy", dy, x);
  check_rows(check, "dx", dx, x);
  check.shape("dgain", dgain, {x.size(-1)});
  if (mean) check.shape("dbias", dbias, {x.size(-1)});
  const Span span(op, traffic(dy, x, dx, accumulate ? dx : Tensor()));
  if (stream.device().is_cpu())
    return cpu::norm_bwd(dy, x, gain, mean, rstd, accumulate, dx, dgain, dbias, stream.pool());
  run_cuda(stream, &CudaOpsTable::norm_bwd,
           {head_rows(dy), head_rows(x), head_rows<void>(dx), gain.raw(), x.dtype(),
            data_or_null<float>(mean), rstd.data<float>(), dgain.data<float>(),
            data_or_null<float>(dbias), x.size(0), heads_of(x), x.size(-1), accumulate});
}

}  // namespace hgt
