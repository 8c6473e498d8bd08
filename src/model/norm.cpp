#include "norm.h"

#include "hgtrain/ops/layer_norm.h"
#include "hgtrain/ops/rms_norm.h"

namespace hgt {
namespace {

/// [N, C] as N rows of one head.
Tensor one_head(const Tensor& x) {
  return x.split(1, 1);
}

}  // namespace

void norm_fwd(const Norm& weights, float eps, const Tensor& x, const NormState& state,
              Stream stream) {
  if (weights.bias)
    layer_norm_fwd(x, weights.gain, weights.bias, eps, state.out, state.mean, state.scale, stream);
  else
    rms_norm_fwd(one_head(x), weights.gain, eps, one_head(state.out),
                 state.scale.split(0, x.size(0)), stream);
}

void add_norm_fwd(const Norm& weights, float eps, const Tensor& x, const Tensor& branch,
                  const Tensor& sum, const NormState& state, Stream stream) {
  if (weights.bias)
    add_layer_norm_fwd(x, branch, weights.gain, weights.bias, eps, sum, state.out, state.mean,
                       state.scale, stream);
  else
    add_rms_norm_fwd(one_head(x), one_head(branch), weights.gain, eps, one_head(sum),
                     one_head(state.out), state.scale.split(0, x.size(0)), stream);
}

void norm_bwd(const Norm& weights, const Norm& gradients, const Tensor& x, const NormState& state,
              const Tensor& dy, bool accumulate, const Tensor& dx, Stream stream) {
  if (weights.bias)
    layer_norm_bwd(dy, x, weights.gain, state.mean, state.scale, accumulate, dx, gradients.gain,
                   gradients.bias, stream);
  else
    rms_norm_bwd(one_head(dy), one_head(x), weights.gain, state.scale.split(0, x.size(0)),
                 accumulate, one_head(dx), gradients.gain, stream);
}

}  // namespace hgt
