#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/vocabulary_part.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[b, t] = table[tokens[b, t]] + positions[t].
///
///   tokens     [B, T]  int32; Error(kData) names one that is not in the vocabulary
///   table      [V, C]  fp32, bf16 or fp16; out and positions likewise; their gradients are fp32
///   positions  [P, C]  rows of the position table, or none; P = T without position_ids
///   position_ids  [B, T]  int32 in [0, P), each token's row of `positions`; none: row t
///   out        [B, T, C]  written
///   part       the ids that `table` has rows for; a token that has none adds zeros. None given:
///              the table is that of the whole vocabulary.
///
/// On CUDA tokens and positions are not checked: one that is out of range makes its row NaN.
void embedding_fwd(const Tensor& tokens, const Tensor& table, const Tensor& positions,
                   const Tensor& out, Stream stream, const Tensor& position_ids = {},
                   VocabularyPart part = {});

/// dtable[tokens[b, t]] += dout[b, t]; dpositions[t] += sum over b of dout[b, t]. dtable's first
/// row is that of id `first`; a token that has none is left out. Sums run in the order of the
/// tokens, so they are bit-identical for any number of threads.
void embedding_bwd(const Tensor& tokens, const Tensor& dout, const Tensor& dtable,
                   const Tensor& dpositions, Stream stream, const Tensor& position_ids = {},
                   std::int64_t first = 0);

}  // namespace hgt
