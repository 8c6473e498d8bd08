#include "head.h"

#include <algorithm>

#include "hgtrain/ops/cross_entropy.h"
#include "hgtrain/ops/linear.h"

namespace hgt {

HeadState::HeadState(const BatchActivations& memory)
    : norm{memory.get("final_norm"), memory.find("final_mean"), memory.get("final_scale")},
      d_norm(memory.get("d_final_norm")),
      losses(memory.get("losses")),
      logits(memory.get("logits")) {}

void head_fwd(const ModelConfig& model, const Weights& weights, const Weights* gradients,
              const Tensor& x, const Tensor& targets, float loss_scale, const HeadState& state,
              Stream stream) {
  norm_fwd(weights.final_norm, static_cast<float>(model.norm_eps), x, state.norm, stream);
  const std::int64_t rows = x.size(0), chunk = state.logits.size(0);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, rows);
    const Tensor hidden = state.norm.out.slice(0, begin, end);
    const Tensor logits = state.logits.slice(0, 0, end - begin);
    const Tensor labels = targets.slice(0, begin, end), losses = state.losses.slice(0, begin, end);
    linear_fwd(hidden, weights.output, {}, logits, stream);
    if (!gradients) {
      cross_entropy_fwd(logits, labels, losses, stream);
      continue;
    }
    cross_entropy_fwd_bwd(logits, labels, loss_scale, losses, stream);
    linear_bwd_input(logits, weights.output, state.d_norm.slice(0, begin, end), stream);
    linear_bwd_weight(hidden, logits, gradients->output, {}, stream);
  }
}

void head_bwd(const Weights& weights, const Weights& gradients, const Tensor& x,
              const HeadState& state, const Tensor& d, Stream stream) {
  norm_bwd(weights.final_norm, gradients.final_norm, x, state.norm, state.d_norm, false, d, stream);
}

}  // namespace hgt
