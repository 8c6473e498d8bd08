#include "hgtrain/ops/normal.h"

#include "dispatch.h"

namespace hgt {

void normal_fill(std::uint64_t seed, std::uint64_t stream_id, float std, std::int64_t first,
                 const Tensor& out, Stream stream) {
  const Checks check("normal_fill", stream);
  check.rank("out", out, 1);
  check.contiguous("out", out, {out.size(0)});
  check.that(stream.device().is_cpu(), "out", "is not on the CPU");
  const Span span("normal_fill", traffic(out));
  cpu::normal_fill(seed, stream_id, std, first, out, stream.pool());
}

}  // namespace hgt
