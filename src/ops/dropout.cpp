#include "hgtrain/ops/dropout.h"

#include <algorithm>

#include "dispatch.h"

namespace hgt {
namespace {

void check_operands(const Checks& check, const Tensor& x, const Tensor& y, const Dropout& options) {
  check.device("x", x);
  check.compute_dtype("x", x);
  check.that(x.rank() >= 1 && x.contiguous(), "x", "is not a contiguous tensor");
  check.contiguous("y", y.reshaped({y.numel()}), {x.numel()}, x.dtype());
  check.that(options.probability >= 0 && options.probability < 1, "probability",
             "is not in [0, 1)");
  check.that(options.probability == 0 || options.samples != nullptr, "samples", "are not given");
  const auto& [length, runs, begins, first] = options.rows;
  check.that((runs == 1 || runs == 2) && length > 0 && length % runs == 0 && first >= 0, "rows",
             "are not in one or two runs of equal length");
}

void run(const Stream& stream, const Tensor& x, const Tensor& branch, const Dropout& options,
         const Tensor& y) {
  if (stream.device().is_cpu()) return cpu::dropout_add(x, branch, options, y, stream.pool());
  const std::int64_t width = branch.numel() / std::max<std::int64_t>(branch.size(0), 1);
  run_cuda(stream, &CudaOpsTable::dropout_add,
           {x.raw(), branch.raw(), y.raw(), y.dtype(), branch.numel(), width, options.rows,
            dropout_args(options)});
}

}  // namespace

void dropout(const Tensor& x, const Dropout& options, const Tensor& y, Stream stream) {
  check_operands(Checks("dropout", stream), x, y, options);
  const Span span("dropout", traffic(x, y));
  run(stream, {}, x, options, y);
}

void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 Stream stream) {
  const Checks check("dropout_add", stream);
  check_operands(check, branch, y, options);
  check_operands(check, branch, x, options);
  const Span span("dropout_add", traffic(x, branch, y));
  run(stream, x, branch, options, y);
}

}  // namespace hgt
