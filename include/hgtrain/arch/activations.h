#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/dtype.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/parallel/schedule.h"

namespace hgt {

struct Config;

/// The activations of a layer that its backward pass computes again: none; those of norms and
/// activation functions, which need no matrix products; all but the layer's output.
/// Sources: Chen et al. 2016, arXiv:1604.06174; Korthikanti et al. 2022, arXiv:2205.05198.
enum class Recompute { kNone, kSelective, kFull };

/// What the sizes of the activations of a range of a model's blocks depend on.
struct ActivationSizes {
  std::int64_t batch = 0;       ///< B, the samples of a micro-batch
  std::int64_t seq_length = 0;  ///< T
  std::int64_t slots = 1;       ///< micro-batches that are held between forward and backward
  DType dtype = DType::kF32;    ///< the type in which they are computed
  Recompute recompute = Recompute::kNone;
  std::int64_t recomputed_layers = 0;  ///< how many first layers of the model are recomputed
  Range blocks = {};                   ///< the range; empty: all of the model
  std::int64_t tensor_size = 1;        ///< ranks that share each layer
  SplitBackward split = {};            ///< what is held for the backward of the weights
  std::int64_t context_size = 1;       ///< ranks that share each sequence
  std::int64_t tensor_rank = 0;        ///< this rank's number among them; only with split_rows
  /// The ranks also split the rows of activations that each would have whole.
  bool split_rows = false;
  std::int64_t logit_rows = 0;  ///< rows of logits computed at a time, at most; 0: logit_rows()

  Range layers(const ModelConfig& model) const;  ///< the layers among the blocks, counted from 0
  bool has_head(const ModelConfig& model) const;
  /// Whether this is the block of a stage without layers.
  bool passes_through(const ModelConfig& model) const;
  std::int64_t rows() const { return batch * (seq_length / context_size); }
  /// The rank's rows of the residual stream.
  Range own_rows() const {
    return split_rows ? even_range(rows(), tensor_size, tensor_rank) : Range{0, rows()};
  }
  /// After how many micro-batches all of them use the same memory again.
  std::int64_t period() const { return split.period(slots); }
};

/// A tensor that the model computes into: copies of `shape`. A worker may have several ranges of
/// blocks.
struct PlannedTensor {
  enum class Scope {
    kLayer,   ///< kept from forward to backward, one for each slot and layer
    kSlot,    ///< one for each slot
    kShared,  ///< one: a temporary of a forward or backward
  };
  std::string name;
  std::vector<std::int64_t> shape;
  Scope scope = Scope::kShared;
  DType dtype = DType::kF32;
  struct OfRange {
    std::int64_t slots = 1;  ///< micro-batch m has the copies of slot m % slots
    Range layers = {};       ///< the range's layers that have a copy for each slot

    std::int64_t copies() const { return slots * layers.size(); }
  };
  /// One for each range; the last ranges that lack the tensor are left out.
  std::vector<OfRange> of_ranges = {};
  bool has_shared_copy = false;  ///< one copy, for the other layers of all ranges

  std::int64_t copies() const;
  /// The number of a micro-batch's copy for a layer of a range; -1 if the layer has none.
  std::int64_t copy_of(std::size_t range, std::int64_t micro, std::int64_t layer) const;
  std::int64_t numel() const;  ///< of one copy
  std::int64_t bytes() const;  ///< of all copies
};

/// All activations that the module model allocates and binds for some ranges of blocks, by name.
/// This is the only list of them. If ranks share the model, `model` is one rank's part. Names and
/// shapes, with N = B T' rows of T' = T / context_size tokens each, n of them the rank's own, Q =
/// (H + 2 K) D, M = F or, if the MLP is gated, 2 F:
///
///   layer   norm1 [n, C], norm1_mean [n] (layer norm), norm1_scale [n], qkv [N, Q],
///           qk [N, (H + K) D], q_scale [N, H] and k_scale [N, K] (q/k norm), attention [N, H D],
///           lse [B, H, T'], after_attention [n, C] (the residual between attention and MLP), norm2
///           ... as norm1, up [N, M], activated [N, F], output [n, C]
///   slot    embedded [n, C], d_hidden [n, C], losses [N], final_mean [n], final_scale [n],
///           d_final_norm [n, C]
///   shared  branch [N, C], d_norm [N, C], d_qkv, d_qk, d_attention, d_up, d_activated (gated),
///           final_norm [N, C], logits [R, V], softmax_parts [ranks, R, 3] (tensor ranks),
///           keys_values and d_keys_values [B, T, 2 K, D] (context ranks)
///
/// If the backward is split, a layer keeps for its second half the inputs of its products (norm1,
/// attention, norm2, activated) and, from the first half on, the gradients of their outputs: d_qkv,
/// d_out [N, C], d_up, d_down [N, C]. If such an input is recomputed, the layer keeps "recomputed
/// norm1" and so on from the first half on.
///
/// The block of a stage without layers has embedded, d_hidden and, to send from, an output for each
/// slot.
///
/// Means, scales, lse, losses and softmax_parts are fp32; all others have `sizes.dtype`.
std::vector<PlannedTensor> activations_of(const ModelConfig& model,
                                          const std::vector<ActivationSizes>& ranges);

/// The sizes of a whole model that computes one micro-batch at a time.
ActivationSizes activation_sizes(const Config& config);
/// The rows of logits that a model of the config computes at a time on a GPU, at most; 0 on a CPU.
std::int64_t planned_logit_rows(const Config& config);
/// The sizes for each range of blocks of the rank whose steps have this shape.
std::vector<ActivationSizes> activation_sizes(const Config& config, const StepShape& shape);

/// The memory through which tensor ranks sum these gradients: as many at once as fit, and all of
/// them if that takes no more than 1 MiB.
std::int64_t partial_gradient_bytes(const std::vector<PartialGradients>& partial);

/// R: the rows of logits that the CPU computes at a time, so that they take some 64 MiB. For a GPU,
/// see arch/gpu_scratch.h.
std::int64_t logit_rows(const ModelConfig& model, std::int64_t rows);

}  // namespace hgt
