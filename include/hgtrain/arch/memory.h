#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/dtype.h"

namespace hgt {

/// What of a layer's activations is not kept for its backward but computed again: nothing; results
/// of norms and activation functions, which cost no products; all but the layer's output.
/// Sources: Chen et al. 2016, arXiv:1604.06174; Korthikanti et al. 2022, arXiv:2205.05198.
enum class Recompute { kNone, kSelective, kFull };

/// What a model's activations are sized for.
struct ActivationSizes {
  std::int64_t batch = 0;       ///< B, of a micro-batch
  std::int64_t seq_length = 0;  ///< T
  std::int64_t slots = 1;       ///< micro-batches whose activations are held at once
  DType dtype = DType::kF32;    ///< that they are computed in
  Recompute recompute = Recompute::kNone;
  std::int64_t recomputed_layers = 0;  ///< the first so many
};

/// A tensor that the model computes into: `copies` of `shape`.
struct PlannedTensor {
  enum class Scope {
    kLayer,   ///< kept from forward to backward, one for each slot and layer
    kSlot,    ///< one for each slot
    kShared,  ///< one: a temporary of a forward or backward
  };
  std::string name;
  std::vector<std::int64_t> shape;
  Scope scope = Scope::kShared;
  std::int64_t copies = 1;
  DType dtype = DType::kF32;
  std::int64_t shared_layers = 0;  ///< the first so many layers share the last copy

  std::int64_t numel() const;  ///< of one copy
  std::int64_t bytes() const;  ///< of all copies
};

/// All of them, by name: what the model room allocates, no more and no less. Names and shapes, with
/// N = B T rows, Q = (H + 2 K) D, M = F or, where the MLP is gated, 2 F:
///
///   layer   norm1 [N, C], norm1_mean [N] (layer norm), norm1_scale [N], qkv [N, Q],
///           qk [N, (H + K) D] and qk_scale [H + K, N] (q/k norm), attention [N, H D],
///           lse [B, H, T], after_attention [N, C] (the residual between attention and MLP), norm2
///           ... as norm1, up [N, M], activated [N, F], output [N, C]
///   slot    embedded [N, C], d_hidden [N, C], losses [N], final_mean [N], final_scale [N],
///           d_final_norm [N, C]
///   shared  branch [N, C], d_norm [N, C], d_qkv, d_qk, d_attention, d_up, d_activated (gated),
///           final_norm [N, C], logits [R, V]
///
/// Means, scales, lse and losses are fp32, all else is `sizes.dtype`.
std::vector<PlannedTensor> activations_of(const ModelConfig& model, const ActivationSizes& sizes);

/// Those of a job: its micro-batches, one at a time.
ActivationSizes activation_sizes(const Config& config);

/// R: rows of logits computed at a time, so that they take some 64 MiB.
std::int64_t logit_rows(const ModelConfig& model, std::int64_t rows);

/// A named allocation of a worker and its size in bytes: a line of `--dry_run`'s memory table.
struct Allocation {
  std::string name;
  std::int64_t bytes = 0;
};

/// Everything a worker allocates for training, from config and layout alone: parameters (fp32
/// masters and the weights where those are 16 bits, or the weights alone), gradients, the
/// optimizer's state, the moving average of the parameters, the copy of all these but weights and
/// gradients that an asynchronous save writes from, activations, and the scratch memory of its CPU
/// threads. Where the device is cuda, what lies on the GPU: all but that copy, scratch memory of
/// its own, and what CUDA's libraries take beside; but not the driver's context.
std::vector<Allocation> memory_table(const Config& config, int threads);

/// Error(kConfig) where a model is wider than the kernels for GPUs are built for: 16 KiB in a row
/// of the norms, 256 in a head of the attention.
void require_gpu_widths(const ModelConfig& model, DType dtype);

/// What a checkpoint holds: parameters, the optimizer's state, the moving average. A save on a GPU
/// takes as much of the host's memory, on rank 0.
std::int64_t state_bytes(const Config& config);

/// Bytes of a table.
std::int64_t total_bytes(const std::vector<Allocation>& table);

/// Floating-point operations of one training step over `tokens` tokens: 6 per parameter of a weight
/// product and token, and 12 H D a layer and token times the mean number of keys a query sees (T /
/// 2 for full causal attention, as Megatron-LM counts it).
double train_flops(const ModelConfig& model, std::int64_t seq_length, std::int64_t tokens);

}  // namespace hgt
