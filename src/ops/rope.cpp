#include "hgtrain/ops/rope.h"

#include "dispatch.h"

namespace hgt {
namespace {

void rotate(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin, float direction,
            const Tensor& position_ids, Stream stream) {
  const Checks check(op, stream);
  check.rank("x", x, 4);
  check.compute_dtype("x", x);
  check.that(x.size(3) % 2 == 0, "x", "has an odd number of dimensions a head");
  check.shape("x", x, {x.size(0), x.size(1), x.size(2), x.size(3)}, x.dtype());
  const std::int64_t positions = position_ids ? cos.size(0) : x.size(1);
  check.contiguous("cos", cos, {positions, x.size(3) / 2});
  check.contiguous("sin", sin, {positions, x.size(3) / 2});
  check.position_ids(position_ids, x.size(0), x.size(1),
                     [=](std::int64_t) { return positions - 1; });
  const Span span(op, traffic(x, x));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::rope,
                    {heads<void>(x), x.dtype(), cos.data<float>(), sin.data<float>(),
                     data_or_null<std::int32_t>(position_ids), x.size(0), x.size(1), positions,
                     x.size(2), x.size(3), direction});
  cpu::rope(x, cos, sin, position_ids, direction, stream.pool());
}

}  // namespace

void rope_fwd(const Tensor& x, const Tensor& cos, const Tensor& sin, Stream stream,
              const Tensor& position_ids) {
  rotate("rope_fwd", x, cos, sin, 1, position_ids, stream);
}

void rope_bwd(const Tensor& dx, const Tensor& cos, const Tensor& sin, Stream stream,
              const Tensor& position_ids) {
  rotate("rope_bwd", dx, cos, sin, -1, position_ids, stream);
}

}  // namespace hgt
