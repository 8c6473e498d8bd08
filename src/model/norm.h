#pragma once

#include "hgtrain/device/stream.h"

#include "weights.h"

namespace hgt {

// Types, aliasing and determinism are those of hgtrain/ops/norm.h; the device runs asynchronously.

/// A norm's result [N, C], and what its backward needs: [N] each, fp32, no `mean` for an RMS norm.
struct NormState {
  Tensor out, mean, scale;
};

/// state = norm(x): a layer norm if there is a bias, else an RMS norm; x is [N, C].
void norm_fwd(const Norm& weights, float eps, const Tensor& x, const NormState& state,
              Stream stream);

/// sum = x + branch, and the norm of that; all are [N, C].
void add_norm_fwd(const Norm& weights, float eps, const Tensor& x, const Tensor& branch,
                  const Tensor& sum, const NormState& state, Stream stream);

/// dx = the gradient of x; with `accumulate` it is added to dx, without it dx may be dy. The
/// gradients of gain and bias are added to `gradients` (fp32).
void norm_bwd(const Norm& weights, const Norm& gradients, const Tensor& x, const NormState& state,
              const Tensor& dy, bool accumulate, const Tensor& dx, Stream stream);

}  // namespace hgt
