#pragma once

#include "hgtrain/device/stream.h"

#include "weights.h"

namespace hgt {

/// A norm's result [N, C], and what its backward needs: [N] each, `mean` none for RMS norm.
struct NormState {
  Tensor out, mean, scale;
};

/// state = norm(x), a layer norm where there is a bias, else an RMS norm; x is [N, C].
void norm_fwd(const Norm& weights, float eps, const Tensor& x, const NormState& state,
              Stream stream);

/// sum = x + branch, and the norm of that; all are [N, C].
void add_norm_fwd(const Norm& weights, float eps, const Tensor& x, const Tensor& branch,
                  const Tensor& sum, const NormState& state, Stream stream);

/// dx = the gradient of x, or with `accumulate` is added to; without, it may be dy.
void norm_bwd(const Norm& weights, const Norm& gradients, const Tensor& x, const NormState& state,
              const Tensor& dy, bool accumulate, const Tensor& dx, Stream stream);

}  // namespace hgt
