#include "layer.h"

#include <cmath>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/ops/linear.h"
#include "hgtrain/ops/norm.h"
#include "hgtrain/ops/rope.h"

namespace hgt {
namespace {

/// The places of a layer's dropout: site = 4 block + place; block 0 is the embedding.
enum Place : std::uint64_t { kProbabilities, kAttentionBranch, kMlpBranch };

}  // namespace

Layer::Layer(const ModelConfig& model, std::int64_t index, Recompute recompute, TensorGroup group,
             ContextGroup context)
    : m_(model),
      family_(family_of(model)),
      activation_(activation_of(model.hidden_act)),
      eps_(static_cast<float>(model.norm_eps)),
      index_(index),
      recompute_(recompute),
      group_(group),
      context_(context) {
  attention_.first_head = group.rank() * model.num_attention_heads;
  attention_.scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim));
  if (model.scale_attn_by_inverse_layer_idx) attention_.scale /= static_cast<float>(index + 1);
  if (!model.layer_windows.empty())
    attention_.window = model.layer_windows[static_cast<std::size_t>(index)];
}

Dropout Layer::dropout(const Pass& pass, double probability, std::uint64_t place) const {
  Dropout out = pass.dropout;
  out.probability = pass.training ? static_cast<float>(probability) : 0.0f;
  out.site = 4 * static_cast<std::uint64_t>(index_ + 1) + place;
  return out;
}

bool Layer::adds_in_product(const Stream& stream) const {
  return !stream.device().is_cpu() && m_.resid_pdrop == 0 && group_.size() == 1;
}

AttentionOptions Layer::attention_options(const Pass& pass) const {
  AttentionOptions out = attention_;
  out.dropout = dropout(pass, m_.attn_pdrop, kProbabilities);
  out.position_ids = pass.position_ids;
  out.queries = pass.tokens;
  return out;
}

KeysValues Layer::keys_values(const QkvHeads& own, const Pass& pass, const LayerScratch& scratch,
                              Stream stream) const {
  return finish_gather(own, pass, scratch, start_gather(own, pass, scratch, stream));
}

std::uint64_t Layer::start_gather(const QkvHeads& own, const Pass& pass,
                                  const LayerScratch& scratch, Stream stream) const {
  if (context_.size() == 1) return 0;
  return context_.start_gather({own.k, own.v}, scratch.keys_values, pass.tokens, pass.byte_owners,
                               stream);
}

KeysValues Layer::finish_gather(const QkvHeads& own, const Pass& pass, const LayerScratch& scratch,
                                std::uint64_t ticket) const {
  if (context_.size() == 1) return {own.k.split(0, pass.batch), own.v.split(0, pass.batch)};
  context_.finish_gather(ticket);
  return ContextGroup::views_of(scratch.keys_values);
}

QkvHeads Layer::heads(const Tensor& q_and_k, const Tensor& qkv) const {
  const std::int64_t queries = m_.num_attention_heads, keys = m_.num_key_value_heads;
  const auto view = [this](const Tensor& x, std::int64_t first, std::int64_t count) {
    return x.slice(1, first * m_.head_dim, (first + count) * m_.head_dim).split(1, count);
  };
  return {view(q_and_k, 0, queries), view(q_and_k, queries, keys), view(qkv, queries + keys, keys)};
}

void Layer::forward(const LayerWeights& w, const Tensor& x, const Pass& pass,
                    const LayerState& state, const LayerScratch& scratch, Stream stream) const {
  const QkvHeads h = project(w, x, pass, state, scratch, stream);
  const auto [keys, values] = keys_values(h, pass, scratch, stream);
  attend(h.q, keys, values, pass, state, stream);
  finish(w, x, pass, state, scratch, stream);
}

QkvHeads Layer::project(const LayerWeights& w, const Tensor& x, const Pass& pass,
                        const LayerState& state, const LayerScratch& scratch, Stream stream) const {
  norm_fwd(w.norm1, eps_, x, state.norm1, stream);
  linear_fwd(group_.gather_rows(state.norm1.out, scratch.branch, stream), w.qkv.weight, w.qkv.bias,
             state.qkv, stream);
  const QkvHeads raw = heads(state.qkv, state.qkv);
  if (!family_.rope) return raw;
  const QkvHeads out = m_.qk_norm ? heads(state.qk, state.qkv) : raw;
  if (m_.qk_norm) {
    norm_fwd(raw.q, w.query_norm, {}, eps_, out.q, {}, state.q_scale, stream);
    norm_fwd(raw.k, w.key_norm, {}, eps_, out.k, {}, state.k_scale, stream);
  }
  rope_fwd(out.q.split(0, pass.batch), pass.cos, pass.sin, stream, pass.position_ids);
  rope_fwd(out.k.split(0, pass.batch), pass.cos, pass.sin, stream, pass.position_ids);
  return out;
}

void Layer::attend(const Tensor& q, const Tensor& keys, const Tensor& values, const Pass& pass,
                   const LayerState& state, Stream stream) const {
  const Tensor out = state.attention.split(1, m_.num_attention_heads).split(0, pass.batch);
  attention_fwd(q.split(0, pass.batch), keys, values, attention_options(pass), out, state.lse,
                stream);
}

void Layer::finish(const LayerWeights& w, const Tensor& x, const Pass& pass,
                   const LayerState& state, const LayerScratch& scratch, Stream stream) const {
  add_attention(w, x, pass, state, scratch, stream);
  mlp_up(w, state, scratch, stream);
  mlp_down(w, pass, state, scratch, stream);
}

void Layer::add_attention(const LayerWeights& w, const Tensor& x, const Pass& pass,
                          const LayerState& state, const LayerScratch& scratch,
                          Stream stream) const {
  const Dropout drop = dropout(pass, m_.resid_pdrop, kAttentionBranch);
  if (adds_in_product(stream)) {
    linear_add_fwd(state.attention, w.out.weight, w.out.bias, x, state.after_attention, stream);
    return norm_fwd(w.norm2, eps_, state.after_attention, state.norm2, stream);
  }
  linear_fwd(state.attention, w.out.weight, group_.once(w.out.bias), scratch.branch, stream);
  const Tensor branch = group_.sum_rows(scratch.branch);
  if (drop.probability == 0)
    return add_norm_fwd(w.norm2, eps_, x, branch, state.after_attention, state.norm2, stream);
  dropout_add(x, branch, drop, state.after_attention, stream);
  norm_fwd(w.norm2, eps_, state.after_attention, state.norm2, stream);
}

void Layer::mlp_up(const LayerWeights& w, const LayerState& state, const LayerScratch& scratch,
                   Stream stream) const {
  const Tensor x = group_.gather_rows(state.norm2.out, scratch.branch, stream);
  // What is computed again starts from the stored `up`, so the first time must do so, too.
  if (family_.gated_mlp || recompute_ == Recompute::kSelective) {
    linear_fwd(x, w.up.weight, w.up.bias, state.up, stream);
    activate(state, stream);
  } else {
    linear_activation_fwd(activation_, x, w.up.weight, w.up.bias, state.up, state.activated,
                          stream);
  }
}

void Layer::activate(const LayerState& state, Stream stream) const {
  if (family_.gated_mlp)
    gated_activation_fwd(activation_, state.up, state.activated, stream);
  else
    activation_fwd(activation_, state.up, state.activated, stream);
}

void Layer::mlp_down(const LayerWeights& w, const Pass& pass, const LayerState& state,
                     const LayerScratch& scratch, Stream stream) const {
  const Dropout drop = dropout(pass, m_.resid_pdrop, kMlpBranch);
  if (adds_in_product(stream))
    return linear_add_fwd(state.activated, w.down.weight, w.down.bias, state.after_attention,
                          state.output, stream);
  linear_fwd(state.activated, w.down.weight, group_.once(w.down.bias), scratch.branch, stream);
  dropout_add(state.after_attention, group_.sum_rows(scratch.branch), drop, state.output, stream);
}

void Layer::recompute(const LayerWeights& w, const Tensor& x, const Pass& pass,
                      const LayerState& state, const LayerScratch& scratch, Stream stream) const {
  if (recompute_ == Recompute::kNone) return;
  if (recompute_ == Recompute::kFull) {
    const QkvHeads h = project(w, x, pass, state, scratch, stream);
    const auto [keys, values] = keys_values(h, pass, scratch, stream);
    attend(h.q, keys, values, pass, state, stream);
    add_attention(w, x, pass, state, scratch, stream);
    mlp_up(w, state, scratch, stream);
  } else {
    norm_fwd(w.norm1, eps_, x, state.norm1, stream);
    norm_fwd(w.norm2, eps_, state.after_attention, state.norm2, stream);
    activate(state, stream);
  }
}

void Layer::backward(const LayerWeights& w, const LayerWeights& g, const Tensor& x,
                     const Pass& pass, const LayerState& state, const LayerScratch& scratch,
                     const ProductGradients& kept, const Tensor& d, Stream stream) const {
  ProductGradients products = kept;
  products.down = branch_gradient(d, pass, kMlpBranch, kept.down, scratch, stream);
  mlp_backward(w, state, scratch, products, stream);
  std::uint64_t sum = group_.start_sum(scratch.d_norm);
  if (!kept.are_kept()) mlp_backward_weights(g, state, scratch, products, stream);
  norm_bwd(w.norm2, g.norm2, state.after_attention, state.norm2,
           group_.finish_sum(scratch.d_norm, sum), true, d, stream);
  products.out = branch_gradient(d, pass, kAttentionBranch, kept.out, scratch, stream);
  attention_backward(w, g, pass, state, scratch, products, stream);
  sum = group_.start_sum(scratch.d_norm);
  if (!kept.are_kept()) attention_backward_weights(g, state, scratch, products, stream);
  norm_bwd(w.norm1, g.norm1, x, state.norm1, group_.finish_sum(scratch.d_norm, sum), true, d,
           stream);
}

void Layer::backward_weights(const LayerWeights& g, const LayerState& state,
                             const LayerScratch& scratch, const ProductGradients& products,
                             Stream stream) const {
  mlp_backward_weights(g, state, scratch, products, stream);
  attention_backward_weights(g, state, scratch, products, stream);
}

Tensor Layer::branch_gradient(const Tensor& d, const Pass& pass, std::uint64_t place,
                              const Tensor& kept, const LayerScratch& scratch,
                              Stream stream) const {
  const Dropout drop = dropout(pass, m_.resid_pdrop, place);
  if (drop.probability == 0 && !kept) return group_.gather_rows(d, scratch.branch, stream);
  const Tensor& all = kept ? kept : scratch.branch;
  const Tensor own = group_.own_rows(all);
  hgt::dropout(d, drop, own, stream);
  return group_.gather_rows(own, all, stream);
}

void Layer::mlp_backward(const LayerWeights& w, const LayerState& state,
                         const LayerScratch& scratch, const ProductGradients& products,
                         Stream stream) const {
  if (family_.gated_mlp) {
    linear_bwd_input(products.down, w.down.weight, scratch.d_activated, stream);
    gated_activation_bwd(activation_, state.up, scratch.d_activated, products.up, stream);
  } else {
    linear_activation_bwd_input(activation_, products.down, w.down.weight, state.up, products.up,
                                stream);
  }
  linear_bwd_input(products.up, w.up.weight, scratch.d_norm, stream);
}

void Layer::mlp_backward_weights(const LayerWeights& g, const LayerState& state,
                                 const LayerScratch& scratch, const ProductGradients& products,
                                 Stream stream) const {
  linear_bwd_weight(state.activated, products.down, g.down.weight, g.down.bias, stream);
  linear_bwd_weight(group_.gather_rows(state.norm2.out, scratch.branch, stream), products.up,
                    g.up.weight, g.up.bias, stream);
}

void Layer::attention_backward(const LayerWeights& w, const LayerWeights& g, const Pass& pass,
                               const LayerState& state, const LayerScratch& scratch,
                               const ProductGradients& products, Stream stream) const {
  const QkvHeads h = heads(m_.qk_norm ? state.qk : state.qkv, state.qkv);
  const QkvHeads d = heads(m_.qk_norm ? scratch.d_qk : products.qkv, products.qkv);
  const bool shares = context_.size() > 1;
  // What `recompute` has gathered is still there; else this product is computed meanwhile.
  const bool is_gathered = shares && recompute_ == Recompute::kFull;
  const std::uint64_t gathering = is_gathered ? 0 : start_gather(h, pass, scratch, stream);
  linear_bwd_input(products.out, w.out.weight, scratch.d_attention, stream);
  const KeysValues all = is_gathered ? ContextGroup::views_of(scratch.keys_values)
                                     : finish_gather(h, pass, scratch, gathering);

  const auto sequences = [&](const Tensor& x) { return x.split(0, pass.batch); };
  const auto attended = [&](const Tensor& x) {
    return sequences(x.split(1, m_.num_attention_heads));
  };
  const KeysValues d_all = shares ? ContextGroup::views_of(scratch.d_keys_values)
                                  : KeysValues{sequences(d.k), sequences(d.v)};
  attention_bwd(attended(scratch.d_attention), sequences(h.q), all.k, all.v,
                attended(state.attention), state.lse, attention_options(pass), sequences(d.q),
                d_all.k, d_all.v, stream);
  if (shares)
    context_.sum_own(scratch.d_keys_values, {d.k, d.v}, pass.tokens, pass.value_owners, stream);
  if (family_.rope) {
    rope_bwd(sequences(d.q), pass.cos, pass.sin, stream, pass.position_ids);
    rope_bwd(sequences(d.k), pass.cos, pass.sin, stream, pass.position_ids);
  }
  if (m_.qk_norm) {
    const QkvHeads raw = heads(state.qkv, state.qkv), d_raw = heads(products.qkv, products.qkv);
    norm_bwd(d.q, raw.q, w.query_norm, {}, state.q_scale, false, d_raw.q, g.query_norm, {}, stream);
    norm_bwd(d.k, raw.k, w.key_norm, {}, state.k_scale, false, d_raw.k, g.key_norm, {}, stream);
  }
  linear_bwd_input(products.qkv, w.qkv.weight, scratch.d_norm, stream);
}

void Layer::attention_backward_weights(const LayerWeights& g, const LayerState& state,
                                       const LayerScratch& scratch,
                                       const ProductGradients& products, Stream stream) const {
  linear_bwd_weight(state.attention, products.out, g.out.weight, g.out.bias, stream);
  linear_bwd_weight(group_.gather_rows(state.norm1.out, scratch.branch, stream), products.qkv,
                    g.qkv.weight, g.qkv.bias, stream);
}

}  // namespace hgt
