#pragma once

#include <cstdint>
#include <optional>

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/vocabulary_part.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A target that does not count: its loss and gradient are zero (PyTorch's ignore_index).
inline constexpr std::int32_t kIgnoredTarget = -100;

/// losses[n] = log(sum of exp(logits[n])) - logits[n, targets[n]].
///
///   logits   [N, W]  fp32, bf16 or fp16, contiguous; overwritten (see below). The first V columns
///   belong to the vocabulary, all of them if V is not given; the others are padding targets  [N]
///   int32; Error(kData) names one that is neither kIgnoredTarget nor in [0, V) losses   [N] fp32,
///   written
///
/// After cross_entropy_fwd, the contents of `logits` are undefined; cross_entropy_fwd_bwd leaves
/// the gradient of gradient_scale * sum(losses) there, and zeros in the padding.
///
/// On CUDA the targets are not checked: a wrong one makes its loss and gradient NaN.
void cross_entropy_fwd(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                       Stream stream, std::optional<std::int64_t> vocabulary = {});
void cross_entropy_fwd_bwd(const Tensor& logits, const Tensor& targets, float gradient_scale,
                           const Tensor& losses, Stream stream,
                           std::optional<std::int64_t> vocabulary = {});

/// The same if each of R ranks has the logits of a part of the vocabulary, so that none holds all:
/// each calls cross_entropy_part, the ranks exchange their results, and each calls
/// cross_entropy_finish. All get the same losses; the gradient is that of the rank's own logits,
/// and zero in the padding.
///
///   out    [N, 3]     fp32, written: each row's largest logit, the sum of exp(logit - largest),
///   the
///                     target's logit or 0 if another rank has it
///   parts  [R, N, 3]  fp32: `out` of all ranks
///   gradient_scale    null: computes only the losses
void cross_entropy_part(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                        const Tensor& out, Stream stream);
void cross_entropy_finish(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                          const Tensor& parts, const float* gradient_scale, const Tensor& losses,
                          Stream stream);

}  // namespace hgt
