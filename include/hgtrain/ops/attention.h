#pragma once

#include <cstdint>

#include "hgtrain/base/sample_rows.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

struct AttentionOptions {
  float scale = 1;          ///< factor of the scores, before softmax; positive
  std::int64_t window = 0;  ///< a query sees itself and the window - 1 keys before it; 0 = all
  /// Dropout on the probabilities: that of key j for the query at position i is element (h S + i) S
  /// + j, and h counts from `first_head`. `rows` is not used.
  Dropout dropout;
  /// [B, T] int32, or none: the position of each query in its document, from 0, growing by 1 from
  /// token to token. A query sees its own document alone: as many keys before it as its position
  /// says. The values are checked on the CPU only.
  Tensor position_ids = {};
  std::int64_t first_head = 0;  ///< q's first head among those of all ranks
  /// Which of the S positions the T queries have; `first` is not used. With length 0 they have the
  /// last T.
  SampleRows queries = {0};
};

/// Causal attention: out = softmax(scale q k^T + mask) v, per sample and head. With S > T the
/// queries are some of the S positions: the last ones (a cache), or those of `options.queries` (a
/// rank's part of the sequence). With fewer key heads than query heads, each key head serves H / K
/// neighbouring query heads (GQA, Ainslie et al. 2023, arXiv:2305.13245).
/// Works on tiles of 64 queries and 64 keys, skips keys that no query sees, never holds T x S.
///
///   q, out  [B, T, H, D]  fp32, bf16 or fp16, the last dimension contiguous; D at most 256 on CUDA
///   k, v    [B, S, K, D]  the same; S >= T
///   lse     [B, H, T]     fp32, written: log of the sum of exp(scores); the backward needs it
///
/// Computed in fp32. Bit-identical for any number of threads.
void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options, const Tensor& out, const Tensor& lse,
                   Stream stream);

/// Writes dq, dk, dv (shapes of q, k, v); dk and dv are the contributions of these queries. The
/// probabilities are computed again from lse. In bf16 on a CPU that multiplies bf16, the
/// probabilities and the gradients of the scores are rounded to bf16 before they are multiplied.
void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, Stream stream);

}  // namespace hgt
