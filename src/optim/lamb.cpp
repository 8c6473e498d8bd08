#include "lamb.h"

#include <algorithm>
#include <cmath>

#include "hgtrain/ops/squares.h"

#include "chunks.h"

namespace hgt {
namespace {

float change(const Update& u, bool eps_inside_sqrt, float p, float m, float v) {
  const float root = eps_inside_sqrt ? std::sqrt(v + u.eps) : std::sqrt(v) + u.eps;
  return m / root + u.weight_decay * p;
}

void update_moments(const Update& u, const float* __restrict g, float* __restrict m,
                    float* __restrict v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * u.gradient_factor;
    m[i] = u.beta1 * m[i] + u.one_minus_beta1 * gradient;
    v[i] = u.beta2 * v[i] + u.one_minus_beta2 * gradient * gradient;
  }
}

}  // namespace

Lamb::Lamb(const OptimizerConfig& config, const ParameterTable& table)
    : min_coeff_(static_cast<float>(config.min_coeff)),
      max_coeff_(static_cast<float>(config.max_coeff)),
      eps_inside_sqrt_(config.eps_inside_sqrt),
      ratios_(table.parameters.size()) {
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& p = table.parameters[i];
    for (std::int64_t at = 0; at < p.numel; at += kChunk)
      pieces_.push_back(
          {i, {p.offset + at, p.offset + std::min(at + kChunk, p.numel)}, p.decay, 0, 0});
  }
}

template <class Fn>
void Lamb::for_pieces(ThreadPool& pool, const Update& update, const Fn& fn) {
  Update undecayed = update;
  undecayed.weight_decay = 0;
  pool.parallel_for(std::ssize(pieces_), [&](std::int64_t begin, std::int64_t end, int) {
    for (Piece& piece : std::span(pieces_).subspan(begin, end - begin))
      fn(piece, piece.decay ? update : undecayed);
  });
}

void Lamb::step(const Update& update, const Flat& flat, ThreadPool& pool) {
  for_pieces(pool, update, [&](Piece& piece, const Update& u) {
    const float* const p = flat.p + piece.range.begin;
    float *const m = flat.m + piece.range.begin, *const v = flat.v + piece.range.begin;
    const std::int64_t count = piece.range.size();
    update_moments(u, flat.g + piece.range.begin, m, v, count);
    piece.weight_squares = sum_of_squares(count, [&](std::int64_t i) { return p[i]; });
    piece.change_squares = sum_of_squares(
        count, [&](std::int64_t i) { return change(u, eps_inside_sqrt_, p[i], m[i], v[i]); });
  });
  find_ratios();
  for_pieces(pool, update, [&](Piece& piece, const Update& u) {
    float* const p = flat.p + piece.range.begin;
    const float *const m = flat.m + piece.range.begin, *const v = flat.v + piece.range.begin;
    const float rate = u.lr * ratios_[piece.tensor];
    for (std::int64_t i = 0; i < piece.range.size(); ++i)
      p[i] -= rate * change(u, eps_inside_sqrt_, p[i], m[i], v[i]);
  });
}

void Lamb::find_ratios() {
  auto piece = pieces_.begin();
  for (std::size_t tensor = 0; tensor < ratios_.size(); ++tensor) {
    double weight = 0, change = 0;
    for (; piece != pieces_.end() && piece->tensor == tensor; ++piece) {
      weight += piece->weight_squares;
      change += piece->change_squares;
    }
    ratios_[tensor] =
        weight == 0 || change == 0
            ? 1.0f
            : std::clamp(static_cast<float>(std::sqrt(weight / change)), min_coeff_, max_coeff_);
  }
}

}  // namespace hgt
