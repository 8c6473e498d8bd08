#include "norm.h"

#include "hgtrain/ops/norm.h"

namespace hgt {

void norm_fwd(const Norm& weights, float eps, const Tensor& x, const NormState& state,
              Stream stream) {
  norm_fwd(x, weights.gain, weights.bias, eps, state.out, state.mean, state.scale, stream);
}

void add_norm_fwd(const Norm& weights, float eps, const Tensor& x, const Tensor& branch,
                  const Tensor& sum, const NormState& state, Stream stream) {
  add_norm_fwd(x, branch, weights.gain, weights.bias, eps, sum, state.out, state.mean, state.scale,
               stream);
}

void norm_bwd(const Norm& weights, const Norm& gradients, const Tensor& x, const NormState& state,
              const Tensor& dy, bool accumulate, const Tensor& dx, Stream stream) {
  norm_bwd(dy, x, weights.gain, state.mean, state.scale, accumulate, dx, gradients.gain,
           gradients.bias, stream);
}

}  // namespace hgt
