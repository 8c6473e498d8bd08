#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/vocabulary_part.h"

#include "activations.h"
#include "norm.h"
#include "tensor_group.h"
#include "weights.h"

namespace hgt {

/// What the head keeps from forward to backward.
struct HeadState {
  explicit HeadState(const BatchActivations& memory, const TensorGroup& group = {});
  Tensor hidden;         ///< [N, C], shared: all ranks' norm.out
  NormState norm;        ///< its `out` lies in `hidden`
  Tensor d_norm;         ///< [n, C], gradient of norm.out
  Tensor losses;         ///< [N]
  Tensor logits;         ///< [R, V], shared; V of this rank
  Tensor softmax_parts;  ///< [ranks, R, 3], shared, if several ranks share the model
};

/// Final norm, output product and cross-entropy over N tokens, R rows of logits at a time.
///
///   x [n, C], the rank's rows; targets [N] int32
///
/// If `gradients` is null, computes only the losses. Otherwise turns each chunk of logits into its
/// gradient, times `loss_scale`, adds its contribution to the gradient of the output matrix at
/// once, and leaves state.d_norm for head_bwd. If ranks share the model, each has the logits of
/// `part`, and all get the same losses.
void head_fwd(const ModelConfig& model, const Weights& weights, const Weights* gradients,
              const Tensor& x, const Tensor& targets, float loss_scale, const HeadState& state,
              const TensorGroup& group, VocabularyPart part, Stream stream);

/// d [n, C] = the gradient of x.
void head_bwd(const Weights& weights, const Weights& gradients, const Tensor& x,
              const HeadState& state, const Tensor& d, Stream stream);

}  // namespace hgt
