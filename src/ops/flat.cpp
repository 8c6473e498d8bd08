#include "hgtrain/ops/flat.h"

#include "dispatch.h"

namespace hgt {

void clear(const Tensor& x, Stream stream, const std::int32_t* unless) {
  const Checks check("clear", stream);
  check.contiguous("x", x, {x.numel()});
  const Span span("clear", traffic(x));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::fill, {x.data<float>(), x.numel(), 0.0f, unless});
  if (!unless || *unless == 0) cpu::clear(x, stream.pool());
}

void accumulate(const Tensor& from, const Tensor& to, bool first, Stream stream,
                const std::int32_t* unless) {
  const Checks check("accumulate", stream);
  check.contiguous("from", from, {from.numel()});
  check.contiguous("to", to, {from.numel()});
  const Span span("accumulate", first ? traffic(from, to) : traffic(from, to, to));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::accumulate,
                    {from.data<float>(), to.data<float>(), from.numel(), first, unless});
  if (!unless || *unless == 0) cpu::accumulate(from, to, first, stream.pool());
}

void sum(const Tensor& x, const Tensor& out, Stream stream) {
  const Checks check("sum", stream);
  check.contiguous("x", x, {x.numel()});
  check.contiguous("out", out, {1}, DType::kF64);
  const Span span("sum", traffic(x));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::sum, {x.data<float>(), x.numel(), out.data<double>()});
  cpu::sum(x, out);
}

}  // namespace hgt
