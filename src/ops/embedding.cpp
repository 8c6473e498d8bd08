#include "hgtrain/ops/embedding.h"

#include <limits>

#include "dispatch.h"

namespace hgt {
namespace {

/// The number of positions that tokens may have.
std::int64_t positions_of(const Tensor& positions, const Tensor& position_ids,
                          std::int64_t length) {
  if (!position_ids) return length;
  return positions ? positions.size(0) : std::numeric_limits<std::int32_t>::max();
}

void check_operands(const Checks& check, const Tensor& tokens, const Tensor& table,
                    const Tensor& positions, const Tensor& position_ids, const Tensor& out,
                    DType table_dtype) {
  check.rank("tokens", tokens, 2);
  check.rank("table", table, 2);
  const std::int64_t batch = tokens.size(0), length = tokens.size(1), width = table.size(1);
  check.contiguous("tokens", tokens, {batch, length}, DType::kI32);
  check.compute_dtype("out", out);
  check.contiguous("table", table, {table.size(0), width}, table_dtype);
  check.contiguous("out", out, {batch, length, width}, out.dtype());
  const std::int64_t rows = positions_of(positions, position_ids, length);
  if (positions) check.contiguous("positions", positions, {rows, width}, table_dtype);
  check.position_ids(position_ids, batch, length, [=](std::int64_t) { return rows - 1; });
}

}  // namespace

void embedding_fwd(const Tensor& tokens, const Tensor& table, const Tensor& positions,
                   const Tensor& out, Stream stream, const Tensor& position_ids,
                   VocabularyPart part) {
  const Checks check("embedding_fwd", stream);
  check_operands(check, tokens, table, positions, position_ids, out, out.dtype());
  const Span span("embedding_fwd", traffic(out, out));
  if (part.size == 0) part.size = table.size(0);
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::embedding_fwd,
                    {tokens.data<std::int32_t>(), data_or_null<std::int32_t>(position_ids),
                     table.raw(), positions.raw(), out.raw(), out.dtype(), tokens.numel(),
                     positions_of(positions, position_ids, tokens.size(1)), table.size(1),
                     part.size, part.first, table.size(0)});
  const std::int32_t* const ids = tokens.data<std::int32_t>();
  for (std::int64_t n = 0; n < tokens.numel(); ++n)
    if (ids[n] < 0 || ids[n] >= part.size)
      throw Error(ErrorKind::kData,
                  fmt::format("token {} is outside the vocabulary of {}", ids[n], part.size),
                  "prepare the data with the model's tokenizer");
  cpu::embedding_fwd(tokens, table, part.first, positions, position_ids, out, stream.pool());
}

void embedding_bwd(const Tensor& tokens, const Tensor& dout, const Tensor& dtable,
                   const Tensor& dpositions, Stream stream, const Tensor& position_ids,
                   std::int64_t first) {
  const Checks check("embedding_bwd", stream);
  check_operands(check, tokens, dtable, dpositions, position_ids, dout, DType::kF32);
  const Span span("embedding_bwd", traffic(dout, dout, dout));
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::embedding_bwd,
        {tokens.data<std::int32_t>(), data_or_null<std::int32_t>(position_ids), dout.raw(),
         dout.dtype(), dtable.data<float>(), data_or_null<float>(dpositions), tokens.numel(),
         positions_of(dpositions, position_ids, tokens.size(1)), dtable.size(1), first,
         dtable.size(0)});
  cpu::embedding_bwd(tokens, dout, dtable, first, dpositions, position_ids, stream.pool());
}

}  // namespace hgt
