#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/config/optimizer_config.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/optim/lr_schedule.h"
#include "hgtrain/optim/pieces.h"

namespace hgt {

class DeviceOptimizer;
class Lamb;

/// The optimizers, over flat buffers, in place. With g the gradient times `gradient_factor`,
/// wd the weight decay of the element's group, b1 and b2 the betas, bc = 1 - beta^t (1 without
/// bias_correction), g' = g + wd p:
///
///   AdamW    m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
///            p -= lr ((m / bc1) / (sqrt(v / bc2) + eps) + wd p)
///   Adam     the same; if adam_w_mode is false, with g' for g and without the wd p
///   Lamb     m, v as AdamW; u = m / (sqrt(v) + eps) + wd p (eps_inside_sqrt: m / sqrt(v + eps))
///            p -= lr sqrt(bc2) / bc1 r u,  with r = |p| / |u| over the tensor, kept in
///            [min_coeff, max_coeff]; 1 if a norm is 0
///   Lion     p = p (1 - lr wd) - lr sign(b1 m + (1 - b1) g),  m = b2 m + (1 - b2) g
///   SGD      b = momentum b + (1 - dampening) g' (the first one is g'),
///            p -= lr b (nesterov: g' + momentum b; without momentum: g')
///   Adagrad  s += g'^2,  p -= lr g' / (sqrt(s) + eps)
///
/// Sources: Loshchilov and Hutter 2019, arXiv:1711.05101; You et al. 2020, arXiv:1904.00962; Chen
/// et al. 2023, arXiv:2302.06675; Duchi et al. 2011; torch.optim for SGD and Adagrad, DeepSpeed's
/// kernels for the rest. But Lion's sign(0) is 0, as in the paper (DeepSpeed's -1 moves parameters
/// that never had a gradient), and Adagrad divides g', as in torch (DeepSpeed's CPU kernel divides
/// g). A schedule's betas (OneCycle) apply to the optimizers that have betas.
///
/// The update of an element depends on the element alone; Lamb's also on the norms of its tensor,
/// the fp64 sums of its pieces, added in their order. So the number of threads or ranks changes no
/// bit. Zeros without gradient, such as padding, stay zero.
///
/// Everything is computed in fp32. Parameters and state in bf16 are rounded stochastically
/// (base/stochastic_rounding.h); the random numbers follow from the update's key, the parameter's
/// name and the element's place in the whole parameter, so that no split changes them.
class Optimizer {
 public:
  /// Each holds the values of the whole layout or of the rank's shard, on the stream's device;
  /// `state` in the order of optimizer_state(), zero before the first update. They and the table
  /// must outlive the optimizer. Error(kConfig) if the type is not built.
  struct Buffers {
    FlatTensor parameters;          ///< fp32 or, except for Lamb, bf16
    FlatTensor gradients;           ///< fp32
    std::vector<FlatTensor> state;  ///< fp32, or bf16 if the parameters are
    FlatTensor weights = {};        ///< the fp32 parameters, rounded in each update; or none
    TensorRank tensor = {};         ///< whose part of the model the table is
  };
  /// Updates the elements in the rank's slices alone.
  Optimizer(const OptimizerConfig& config, const ParameterTable& table, const Buffers& buffers,
            std::span<const Slice> slices, Stream stream);
  /// Updates everything.
  Optimizer(const OptimizerConfig& config, const ParameterTable& table, const Buffers& buffers,
            Stream stream);
  ~Optimizer();

  /// The pieces that it updates.
  const Pieces& pieces() const { return pieces_; }

  /// The constants of update number `t`, counted from 1, from the config and the rate: all of
  /// Update's first part except loss_scale, clip, tokens, rounding_key and halt_on_nonfinite.
  Update constants(const Rate& rate, std::int64_t t) const;
  /// An update has two halves, queued on the stream; both do nothing if `update->skip` is set.
  /// `update` lies in memory of the stream's device; prepare_update has finished it. If this rank
  /// does not update everything, norm_parts() must be summed over the ranks between the two.
  void prepare(const Update* update);
  void step(const Update* update);
  /// On the CPU, a part of step(): the pieces in `elements`, which are whole blocks.
  void step(const Update* update, Range elements);
  /// For Lamb, after prepare(): for each piece of all ranks, the sums of the squares of its weights
  /// and of their changes, in fp64; zeros for pieces of other ranks. For other types, no tensor.
  Tensor norm_parts() const;

 private:
  void step_on_cpu(const Update& update, std::span<const FlatPiece> pieces);
  OptimizerConfig config_;
  Buffers buffers_;
  Stream stream_;
  Pieces pieces_;
  Buffer norm_parts_;                        ///< empty for types other than Lamb
  std::unique_ptr<Lamb> lamb_;               ///< null for other types, and on a GPU
  std::unique_ptr<DeviceOptimizer> device_;  ///< null on the CPU
};

}  // namespace hgt
