#pragma once

#include <initializer_list>
#include <vector>

#include "hgtrain/ops/cuda_ops_table.h"

#include "order.h"

/// What each op reads and writes, from its arguments: whole stretches, with the gaps between rows.
namespace hgt::emulation {

using Accesses = std::vector<Access>;

inline std::size_t bytes_of(DType type, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(type);
}
inline Access reads(const void* memory, DType type, std::int64_t elements) {
  return {memory, bytes_of(type, elements), false};
}
inline Access writes(const void* memory, DType type, std::int64_t elements) {
  return {memory, bytes_of(type, elements), true};
}
inline Access reads_ids(const std::int32_t* ids, std::int64_t count) {
  return {ids, static_cast<std::size_t>(count) * 4, false};
}
inline Access floats_read(const float* x, std::int64_t count) {
  return reads(x, DType::kF32, count);
}
inline Access floats_written(const float* x, std::int64_t count) {
  return writes(x, DType::kF32, count);
}
/// From the first to the last element of rows that are `stride` apart.
inline std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}
inline std::int64_t matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld,
                           bool transposed) {
  return transposed ? extent(columns, rows, ld) : extent(rows, columns, ld);
}
template <class T>
std::int64_t extent(const HeadRows<T>& x, std::int64_t positions, std::int64_t heads,
                    std::int64_t width) {
  return extent(positions, extent(heads, width, x.head_stride), x.position_stride);
}
template <class T>
std::int64_t extent(const Heads<T>& x, std::int64_t batch, std::int64_t length, std::int64_t count,
                    std::int64_t width) {
  return extent(batch, extent(length, extent(count, width, x.head_stride), x.position_stride),
                x.batch_stride);
}
inline Access key_of(const DropoutArgs& dropout) {
  return {dropout.probability > 0 ? dropout.samples : nullptr, sizeof(SampleKey), false};
}

inline Accesses accesses(const GemmArgs& a) {
  return {reads(a.a, a.type, matrix(a.m, a.k, a.lda, a.transposed_a)),
          reads(a.b, a.type, matrix(a.k, a.n, a.ldb, a.transposed_b)),
          writes(a.c, a.c_type, matrix(a.m, a.n, a.ldc, a.transposed_c)),
          {a.pre, bytes_of(a.c_type, a.m * a.n), a.epilogue == GemmEpilogue::kGelu},
          {a.bias, bytes_of(a.c_type, a.epilogue == GemmEpilogue::kRowSums ? a.m : a.n),
           a.epilogue == GemmEpilogue::kRowSums || a.epilogue == GemmEpilogue::kColumnSums}};
}
inline Accesses accesses(const EmbeddingArgs& a) {
  return {reads_ids(a.tokens, a.rows), reads_ids(a.position_ids, a.rows),
          reads(a.table, a.type, a.table_rows * a.width),
          reads(a.positions, a.type, a.length * a.width), writes(a.out, a.type, a.rows * a.width)};
}
inline Accesses accesses(const EmbeddingBwdArgs& a) {
  return {reads_ids(a.tokens, a.rows), reads_ids(a.position_ids, a.rows),
          reads(a.dout, a.type, a.rows * a.width), floats_written(a.dtable, a.table_rows * a.width),
          floats_written(a.dpositions, a.length * a.width)};
}
inline Accesses accesses(const NormArgs& a) {
  const auto size = [&](const auto& x) { return extent(x, a.positions, a.heads, a.width); };
  return {reads(a.x.data, a.type, size(a.x)),
          reads(a.branch.data, a.type, size(a.branch)),
          reads(a.gain, a.type, a.width),
          reads(a.bias, a.type, a.width),
          writes(a.sum.data, a.type, size(a.sum)),
          writes(a.y.data, a.type, size(a.y)),
          floats_written(a.mean, a.positions * a.heads),
          floats_written(a.rstd, a.positions * a.heads)};
}
inline Accesses accesses(const NormBwdArgs& a) {
  const auto size = [&](const auto& x) { return extent(x, a.positions, a.heads, a.width); };
  return {reads(a.dy.data, a.type, size(a.dy)),
          reads(a.x.data, a.type, size(a.x)),
          reads(a.gain, a.type, a.width),
          floats_read(a.mean, a.positions * a.heads),
          floats_read(a.rstd, a.positions * a.heads),
          writes(a.dx.data, a.type, size(a.dx)),
          floats_written(a.dgain, a.width),
          floats_written(a.dbias, a.width)};
}
inline Accesses accesses(const RopeArgs& a) {
  return {floats_read(a.cos, a.positions * a.width / 2),
          floats_read(a.sin, a.positions * a.width / 2),
          reads_ids(a.position_ids, a.batch * a.length),
          writes(a.x.data, a.type, extent(a.x, a.batch, a.length, a.heads, a.width))};
}
inline Accesses accesses(const DropoutAddArgs& a) {
  return {reads(a.x, a.type, a.count), reads(a.branch, a.type, a.count), key_of(a.dropout),
          writes(a.y, a.type, a.count)};
}
inline Accesses accesses(const ActivationArgs& a) {
  return {reads(a.x, a.type, a.count), writes(a.y, a.type, a.count)};
}
inline Accesses accesses(const ActivationBwdArgs& a) {
  return {reads(a.x, a.type, a.count), reads(a.dy, a.type, a.count), writes(a.dx, a.type, a.count)};
}
inline Accesses accesses(const GatedActivationArgs& a) {
  return {reads(a.gate_up, a.type, 2 * a.rows * a.width), writes(a.y, a.type, a.rows * a.width)};
}
inline Accesses accesses(const GatedActivationBwdArgs& a) {
  return {reads(a.gate_up, a.type, 2 * a.rows * a.width), reads(a.dy, a.type, a.rows * a.width),
          writes(a.d_gate_up, a.type, 2 * a.rows * a.width)};
}
inline Accesses accesses(const CrossEntropyArgs& a) {
  return {writes(a.logits, a.type, a.rows * a.width), reads_ids(a.targets, a.rows),
          floats_written(a.losses, a.rows)};
}
inline Accesses accesses(const CrossEntropyPartArgs& a) {
  return {reads(a.logits, a.type, a.rows * a.width), reads_ids(a.targets, a.rows),
          floats_written(a.parts, a.rows * 3)};
}
inline Accesses accesses(const CrossEntropyFinishArgs& a) {
  const CrossEntropyPartArgs& part = a.part;
  return {writes(part.logits, part.type, part.rows * part.width),
          reads_ids(part.targets, part.rows), floats_read(part.parts, a.ranks * part.rows * 3),
          floats_written(a.losses, part.rows)};
}
inline Accesses accesses(const AttentionArgs& a) {
  const auto size = [&](const auto& x, std::int64_t length, std::int64_t count) {
    return extent(x, a.batch, length, count, a.width);
  };
  return {reads(a.q.data, a.type, size(a.q, a.queries, a.heads)),
          reads(a.k.data, a.type, size(a.k, a.keys, a.key_heads)),
          reads(a.v.data, a.type, size(a.v, a.keys, a.key_heads)),
          reads_ids(a.position_ids, a.batch * a.queries),
          key_of(a.dropout),
          writes(a.out.data, a.type, size(a.out, a.queries, a.heads)),
          floats_written(a.lse, a.batch * a.heads * a.queries)};
}
inline Accesses accesses(const AttentionBwdArgs& a) {
  const auto of_queries = [&](const auto& x) {
    return extent(x, a.batch, a.queries, a.heads, a.width);
  };
  const auto of_keys = [&](const auto& x) {
    return extent(x, a.batch, a.keys, a.key_heads, a.width);
  };
  return {reads(a.dout.data, a.type, of_queries(a.dout)),
          reads(a.q.data, a.type, of_queries(a.q)),
          reads(a.k.data, a.type, of_keys(a.k)),
          reads(a.v.data, a.type, of_keys(a.v)),
          reads(a.out.data, a.type, of_queries(a.out)),
          reads_ids(a.position_ids, a.batch * a.queries),
          key_of(a.dropout),
          floats_read(a.lse, a.batch * a.heads * a.queries),
          writes(a.dq.data, a.type, of_queries(a.dq)),
          writes(a.dk.data, a.type, of_keys(a.dk)),
          writes(a.dv.data, a.type, of_keys(a.dv))};
}
inline Accesses accesses(const FillArgs& a) {
  return {reads_ids(a.unless, 1), floats_written(a.values, a.count)};
}
inline Accesses accesses(const CastArgs& a) {
  return {reads(a.from, a.from_type, a.count), writes(a.to, a.to_type, a.count)};
}
inline Accesses accesses(const AccumulateArgs& a) {
  return {reads_ids(a.unless, 1), floats_read(a.from, a.count), floats_written(a.to, a.count)};
}
/// The table of pieces, and what of the values lies in them.
inline Accesses in_pieces(const FlatPiece* pieces, std::int64_t count,
                          std::initializer_list<FlatValues> read,
                          std::initializer_list<FlatValues> written) {
  Accesses out{{pieces, static_cast<std::size_t>(count) * sizeof(FlatPiece), false}};
  const auto add = [&](const FlatValues& values, bool writes) {
    if (!values.data) return;
    for (const FlatPiece* piece = pieces; piece != pieces + count; ++piece)
      out.push_back(
          {static_cast<const std::byte*>(values.data) + bytes_of(values.type, values.place(*piece)),
           bytes_of(values.type, piece->end - piece->begin), writes});
  };
  for (const FlatValues& values : read) add(values, false);
  for (const FlatValues& values : written) add(values, true);
  return out;
}
inline Accesses accesses(const SquaresOfPiecesArgs& a) {
  Accesses out = in_pieces(a.pieces, a.piece_count, {a.values}, {});
  for (std::int64_t i = 0; i < a.piece_count; ++i)
    out.push_back(writes(a.out + a.pieces[i].number, DType::kF64, 1));
  return out;
}
inline Accesses accesses(const SumArgs& a) {
  return {floats_read(a.values, a.count), writes(a.out, DType::kF64, 1)};
}
inline Accesses accesses(const PrepareUpdateArgs& a) {
  return {reads(a.squares, DType::kF64, a.square_count),
          reads(a.losses, DType::kF64, a.loss_count),
          {a.update, sizeof(Update), true}};
}
inline Accesses accesses(const UpdateElementsArgs& a) {
  Accesses out = in_pieces(a.pieces, a.piece_count, {a.gradients},
                           {a.parameters, a.state1, a.state2, a.weights});
  out.push_back({a.update, sizeof(Update), false});
  return out;
}
/// Of both halves: either writes a part of this.
inline Accesses accesses(const UpdateLambArgs& a) {
  Accesses out = in_pieces(a.pieces, a.piece_count, {a.gradients},
                           {a.parameters, a.exp_avg, a.exp_avg_sq, a.weights});
  out.push_back({a.update, sizeof(Update), false});
  out.push_back(writes(a.norm_parts, DType::kF64, 2 * a.total_pieces));
  return out;
}
inline Accesses accesses(const UpdateAverageArgs& a) {
  Accesses out = in_pieces(a.pieces, a.piece_count, {a.values}, {a.average});
  out.push_back({a.update, a.update ? sizeof(Update) : 0, false});
  return out;
}
inline Accesses accesses(const SampleArgs& a) {
  return {reads(a.logits, a.type, a.vocabulary), writes(a.token, DType::kI32, 1)};
}

}  // namespace hgt::emulation
