#include "hgtrain/ops/attention.h"

#include <algorithm>

#include "dispatch.h"

namespace hgt {
namespace {

/// The options with the positions of the queries filled in.
AttentionOptions with_queries(AttentionOptions options, const Tensor& q, const Tensor& k) {
  if (options.queries.length == 0) options.queries = {q.size(1), 1, {k.size(1) - q.size(1), 0}};
  return options;
}

void check_operands(const Checks& check, const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options, const Tensor& out, const Tensor& lse) {
  check.rank("q", q, 4);
  check.compute_dtype("q", q);
  check.rank("k", k, 4);
  const std::int64_t batch = q.size(0), length = q.size(1), heads = q.size(2), width = q.size(3);
  const std::int64_t keys = k.size(1), key_heads = k.size(2);
  check.shape("q", q, {batch, length, heads, width}, q.dtype());
  check.shape("k", k, {batch, keys, key_heads, width}, q.dtype());
  check.shape("v", v, {batch, keys, key_heads, width}, q.dtype());
  check.shape("out", out, {batch, length, heads, width}, q.dtype());
  check.contiguous("lse", lse, {batch, heads, length});
  check.that(keys >= length, "k", "has fewer positions than q");
  check.that(key_heads > 0 && heads % key_heads == 0, "k",
             "has a number of heads that does not divide q's");
  check.that(options.scale > 0, "scale", "is not positive");
  check.that(options.window >= 0, "window", "is negative");
  check.that(options.dropout.probability >= 0 && options.dropout.probability < 1,
             "dropout probability", "is not in [0, 1)");
  const SampleRows& rows = options.queries;
  check.that(rows.length == length && (rows.runs == 1 || rows.runs == 2) && length % rows.runs == 0,
             "queries", "are not the rows of q in one or two runs of equal length");
  check.that(rows.begins[0] >= 0 && rows.token(length - 1) < keys, "queries",
             "are not among the keys");
  check.position_ids(options.position_ids, batch, length,
                     [&](std::int64_t t) { return rows.token(t); });
}

/// The work of `products` matrix products over the pairs of a query and a key that it sees.
Work attention_work(const Tensor& q, const AttentionOptions& options, int products) {
  const std::int64_t window = options.window;
  double pairs = 0;
  for (std::int64_t t = 0; t < q.size(1); ++t) {
    const std::int64_t seen = options.queries.token(t) + 1;
    pairs += static_cast<double>(window > 0 ? std::min(seen, window) : seen);
  }
  return {.flops = 2.0 * products * pairs * static_cast<double>(q.size(0) * q.size(2) * q.size(3))};
}

}  // namespace

void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& given,
                   const Tensor& out, const Tensor& lse, Stream stream) {
  const AttentionOptions options = with_queries(given, q, k);
  check_operands(Checks("attention_fwd", stream), q, k, v, options, out, lse);
  const Span span("attention_fwd", attention_work(q, options, 2));
  if (!stream.device().is_cpu())
    return run_cuda(
        stream, &CudaOpsTable::attention_fwd,
        {heads(q), heads(k), heads(v), heads<void>(out), q.dtype(),
         data_or_null<std::int32_t>(options.position_ids), lse.data<float>(), q.size(0), q.size(1),
         k.size(1), q.size(2), k.size(2), q.size(3), options.window, options.scale,
         dropout_args(options.dropout), options.first_head, options.queries});
  cpu::attention_fwd(q, k, v, options, out, lse, stream.pool());
}

void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& given,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, Stream stream) {
  const AttentionOptions options = with_queries(given, q, k);
  const Checks check("attention_bwd", stream);
  check_operands(check, q, k, v, options, out, lse);
  check_operands(check, dq, dk, dv, options, dout, lse);
  check.shape("dq", dq, {q.size(0), q.size(1), q.size(2), q.size(3)}, q.dtype());
  check.shape("dk", dk, {k.size(0), k.size(1), k.size(2), k.size(3)}, q.dtype());
  const Span span("attention_bwd", attention_work(q, options, 5));
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::attention_bwd,
                    {heads(dout),        heads(q),
                     heads(k),           heads(v),
                     heads(out),         heads<void>(dq),
                     heads<void>(dk),    heads<void>(dv),
                     q.dtype(),          data_or_null<std::int32_t>(options.position_ids),
                     lse.data<float>(),  q.size(0),
                     q.size(1),          k.size(1),
                     q.size(2),          k.size(2),
                     q.size(3),          options.window,
                     options.scale,      dropout_args(options.dropout),
                     options.first_head, options.queries});
  cpu::attention_bwd(dout, q, k, v, out, lse, options, dq, dk, dv, stream.pool());
}

}  // namespace hgt
