#include "head.h"

#include <algorithm>

#include "hgtrain/config/model_config.h"
#include "hgtrain/ops/cross_entropy.h"
#include "hgtrain/ops/linear.h"

namespace hgt {

HeadState::HeadState(const BatchActivations& memory, const TensorGroup& group)
    : hidden(memory.get("final_norm")),
      norm{group.own_rows(hidden), memory.find("final_mean"), memory.get("final_scale")},
      d_norm(memory.get("d_final_norm")),
      losses(memory.get("losses")),
      logits(memory.get("logits")),
      softmax_parts(memory.find("softmax_parts")) {}

namespace {

/// Losses of a chunk of logits, which become their gradient if there is a scale.
void cross_entropy(const Tensor& logits, const Tensor& targets, const float* gradient_scale,
                   const Tensor& losses, const Tensor& softmax_parts, const TensorGroup& group,
                   VocabularyPart part, Stream stream) {
  if (group.size() == 1)
    return gradient_scale
               ? cross_entropy_fwd_bwd(logits, targets, *gradient_scale, losses, stream, part.size)
               : cross_entropy_fwd(logits, targets, losses, stream, part.size);
  const std::int64_t ranks = group.size(), rows = logits.size(0);
  const Tensor parts = softmax_parts.reshaped({softmax_parts.numel()})
                           .slice(0, 0, ranks * rows * 3)
                           .reshaped({ranks, rows, 3});
  const Tensor own = parts.slice(0, group.rank(), group.rank() + 1).reshaped({rows, 3});
  cross_entropy_part(logits, targets, part, own, stream);
  group.gather(parts);
  cross_entropy_finish(logits, targets, part, parts, gradient_scale, losses, stream);
}

}  // namespace

void head_fwd(const ModelConfig& model, const Weights& weights, const Weights* gradients,
              const Tensor& x, const Tensor& targets, float loss_scale, const HeadState& state,
              const TensorGroup& group, VocabularyPart part, Stream stream) {
  norm_fwd(weights.final_norm, static_cast<float>(model.norm_eps), x, state.norm, stream);
  const Tensor all = group.gather_rows(state.norm.out, state.hidden, stream);
  const Tensor d_all = group.place_for_all(state.d_norm, state.hidden);
  const std::int64_t rows = all.size(0), chunk = state.logits.size(0);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, rows);
    const Tensor hidden = all.slice(0, begin, end);
    const Tensor logits = state.logits.slice(0, 0, end - begin);
    const Tensor labels = targets.slice(0, begin, end), losses = state.losses.slice(0, begin, end);
    linear_fwd(hidden, weights.output, {}, logits, stream);
    cross_entropy(logits, labels, gradients ? &loss_scale : nullptr, losses, state.softmax_parts,
                  group, part, stream);
    if (!gradients) continue;
    linear_bwd_weight(hidden, logits, gradients->output, {}, stream);
    linear_bwd_input(logits, weights.output, d_all.slice(0, begin, end), stream);
  }
  if (gradients) group.sum_rows(d_all, state.d_norm, stream);
}

void head_bwd(const Weights& weights, const Weights& gradients, const Tensor& x,
              const HeadState& state, const Tensor& d, Stream stream) {
  norm_bwd(weights.final_norm, gradients.final_norm, x, state.norm, state.d_norm, false, d, stream);
}

}  // namespace hgt
