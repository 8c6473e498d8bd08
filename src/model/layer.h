#pragma once

#include "hgtrain/config/model_family.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/activation.h"
#include "hgtrain/ops/attention.h"

#include "activations.h"
#include "context_group.h"
#include "norm.h"
#include "tensor_group.h"
#include "weights.h"

namespace hgt {

struct ModelConfig;

/// The inputs of a layer in one call: B sequences of T tokens; for a context rank, its T tokens of
/// each sequence.
struct Pass {
  std::int64_t batch = 0, length = 0;
  Tensor cos, sin;          ///< [T, D/2] by position, or of all positions with position_ids
  Tensor position_ids;      ///< [B, T] int32, in the tokens' documents, or none
  bool training = false;    ///< dropout applies
  Dropout dropout;          ///< seed, step, samples, rows; a layer adds probability and site
  SampleRows tokens = {0};  ///< of the queries; see AttentionOptions
  /// The context rank that owns each part of all keys and values, counted in bytes and in values.
  std::span<const OwnedRange> byte_owners, value_owners;

  std::int64_t rows() const { return batch * length; }
};

/// What a layer keeps from forward to backward; its predecessor's `output` is its input.
struct LayerState {
  /// `backward`: the state for a backward. If the backward is split, recomputed inputs are kept for
  /// its second half.
  LayerState(const BatchActivations& memory, std::int64_t layer, bool backward = false);
  NormState norm1;
  Tensor qkv;                   ///< q and k are rotated in place, unless they are normed first
  Tensor qk, q_scale, k_scale;  ///< with q/k norm: q and k normed and rotated
  Tensor attention, lse;
  Tensor after_attention;  ///< the residual stream between attention and MLP
  NormState norm2;
  Tensor up, activated, output;
};

/// Temporaries of one layer's forward or backward, shared by all layers. If ranks split rows,
/// `branch` also holds the rows that they gather, and d_norm all rows of both norms' gradients.
struct LayerScratch {
  explicit LayerScratch(const BatchActivations& memory);
  Tensor branch, d_norm, d_attention, d_qk, d_activated;
  Tensor keys_values, d_keys_values;  ///< of all tokens; context ranks
};

/// The gradients of the outputs of a layer's products. The gradients of `out` and `down` have no
/// memory of their own unless the backward is split.
struct ProductGradients {
  ProductGradients(const BatchActivations& memory, std::int64_t layer);
  Tensor qkv, out, up, down;
  bool are_kept() const { return bool(down); }
};

/// Views of the heads of q [N, H, D] and k, v [N, K, D].
struct QkvHeads {
  Tensor q, k, v;
};

/// One Transformer layer of any family:
///
///   after_attention = x + out(attention(qkv(norm1(x))))
///   output = after_attention + down(act(up(norm2(after_attention))))
///
/// If several ranks share the layer, each computes with its heads and its columns of the MLP.
/// The products `out` and `down` and the gradients of both norms' results are sums over the ranks;
/// everything else between is the same on all of them, bit for bit, or they split its rows
/// (tensor_group.h): then x, `output`, d, both norms and after_attention have the rank's rows.
/// Context ranks compute with their tokens, and attend to the keys and values of all.
class Layer {
 public:
  /// `index` counts from 0; `recompute` says which of its state is not kept. `model` is this rank's
  /// part (arch/model_spec.h); a reference to it is kept. Error(kConfig) for an activation function
  /// that is not supported.
  Layer(const ModelConfig& model, std::int64_t index, Recompute recompute = Recompute::kNone,
        TensorGroup group = {}, ContextGroup context = {});

  void forward(const LayerWeights& w, const Tensor& x, const Pass& pass, const LayerState& state,
               const LayerScratch& scratch, Stream stream) const;

  // The three parts of forward, for a caller that keeps the keys and values of earlier tokens:
  QkvHeads project(const LayerWeights& w, const Tensor& x, const Pass& pass,
                   const LayerState& state, const LayerScratch& scratch, Stream stream) const;
  /// keys, values [B, S, K, D]
  void attend(const Tensor& q, const Tensor& keys, const Tensor& values, const Pass& pass,
              const LayerState& state, Stream stream) const;
  void finish(const LayerWeights& w, const Tensor& x, const Pass& pass, const LayerState& state,
              const LayerScratch& scratch, Stream stream) const;

  /// Before the backward, computes the parts of `state` that were not kept.
  void recompute(const LayerWeights& w, const Tensor& x, const Pass& pass, const LayerState& state,
                 const LayerScratch& scratch, Stream stream) const;

  /// Turns `d`, the gradient of the output, into that of x; adds to the parameters' gradients `g`.
  /// If `products` keeps all gradients, those of the products' parameters are left to
  /// backward_weights.
  void backward(const LayerWeights& w, const LayerWeights& g, const Tensor& x, const Pass& pass,
                const LayerState& state, const LayerScratch& scratch,
                const ProductGradients& products, const Tensor& d, Stream stream) const;
  void backward_weights(const LayerWeights& g, const LayerState& state, const LayerScratch& scratch,
                        const ProductGradients& products, Stream stream) const;

 private:
  // The parts of `finish`: to the residual stream between attention and MLP and its norm, to the
  // MLP's inner activations, to the output.
  void add_attention(const LayerWeights& w, const Tensor& x, const Pass& pass,
                     const LayerState& state, const LayerScratch& scratch, Stream stream) const;
  void mlp_up(const LayerWeights& w, const LayerState& state, const LayerScratch& scratch,
              Stream stream) const;
  void mlp_down(const LayerWeights& w, const Pass& pass, const LayerState& state,
                const LayerScratch& scratch, Stream stream) const;
  void activate(const LayerState& state, Stream stream) const;
  QkvHeads heads(const Tensor& q_and_k, const Tensor& qkv) const;
  /// Keys and values of all tokens; context ranks gather them.
  KeysValues keys_values(const QkvHeads& own, const Pass& pass, const LayerScratch& scratch,
                         Stream stream) const;
  // The same in two halves, between which other things may be computed.
  std::uint64_t start_gather(const QkvHeads& own, const Pass& pass, const LayerScratch& scratch,
                             Stream stream) const;
  KeysValues finish_gather(const QkvHeads& own, const Pass& pass, const LayerScratch& scratch,
                           std::uint64_t ticket) const;
  /// Whether a branch's product also adds its result to the residual stream: on a GPU, unless there
  /// is dropout or a sum over ranks in between. Dropout counts even in an evaluation, so that this
  /// has the same products as training, and none that must be timed first.
  bool adds_in_product(const Stream& stream) const;
  AttentionOptions attention_options(const Pass& pass) const;
  Dropout dropout(const Pass& pass, double probability, std::uint64_t place) const;
  /// The gradient of a branch, all rows, from the gradient `d` of the residual stream that it was
  /// added to. It lies in `kept`, if given; else in `d` itself if there is no dropout and rows are
  /// not split.
  Tensor branch_gradient(const Tensor& d, const Pass& pass, std::uint64_t place, const Tensor& kept,
                         const LayerScratch& scratch, Stream stream) const;
  // The backward of a branch has two parts: the gradient of its input, which also writes the
  // gradients of its products' outputs, and the gradients of its products' parameters, which reads
  // them.
  void mlp_backward(const LayerWeights& w, const LayerState& state, const LayerScratch& scratch,
                    const ProductGradients& products, Stream stream) const;
  void mlp_backward_weights(const LayerWeights& g, const LayerState& state,
                            const LayerScratch& scratch, const ProductGradients& products,
                            Stream stream) const;
  void attention_backward(const LayerWeights& w, const LayerWeights& g, const Pass& pass,
                          const LayerState& state, const LayerScratch& scratch,
                          const ProductGradients& products, Stream stream) const;
  void attention_backward_weights(const LayerWeights& g, const LayerState& state,
                                  const LayerScratch& scratch, const ProductGradients& products,
                                  Stream stream) const;

  const ModelConfig& m_;
  const Family& family_;
  Activation activation_;
  float eps_;
  std::int64_t index_;
  Recompute recompute_;
  TensorGroup group_;
  ContextGroup context_;
  AttentionOptions attention_;
};

}  // namespace hgt
