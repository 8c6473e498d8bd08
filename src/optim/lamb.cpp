#include "lamb.h"

#include <algorithm>
#include <cmath>

#include "cpu_loops.h"
#include "squares.h"

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

Update update_of(const FlatPiece& piece, Update update) {
  if (piece.decay == 0) update.weight_decay = 0;
  return update;
}

}  // namespace

std::vector<std::int64_t> first_pieces(std::span<const FlatPiece> pieces) {
  std::vector<std::int64_t> out;
  for (const FlatPiece& piece : pieces)
    if (piece.tensor == std::ssize(out)) out.push_back(piece.number);
  out.push_back(std::ssize(pieces));
  return out;
}

Lamb::Lamb(const OptimizerConfig& config, const ParameterTable& table,
           const Optimizer::Buffers& buffers)
    : min_coeff_(static_cast<float>(config.min_coeff)),
      max_coeff_(static_cast<float>(config.max_coeff)),
      eps_inside_sqrt_(config.eps_inside_sqrt),
      buffers_(buffers),
      first_pieces_(first_pieces(tensor_pieces(table))),
      ratios_(table.parameters.size()) {}

void Lamb::prepare(const Update& update, const Pieces& pieces, std::span<double> norm_parts,
                   ThreadPool& pool) {
  for_pieces(pool, pieces.own(), [&](const FlatPiece& piece) {
    const Update u = update_of(piece, update);
    const float* const p = buffers_.parameters.at(piece).data<float>();
    float *const m = buffers_.state[0].at(piece).data<float>(),
                 *const v = buffers_.state[1].at(piece).data<float>();
    const std::int64_t count = piece.end - piece.begin;
    update_moments(u, buffers_.gradients.at(piece).data<float>(), m, v, count);
    double* const parts = &norm_parts[static_cast<std::size_t>(2 * piece.number)];
    parts[0] = sum_of_squares(count, [&](std::int64_t i) { return p[i]; });
    parts[1] = sum_of_squares(
        count, [&](std::int64_t i) { return change(u, eps_inside_sqrt_, p[i], m[i], v[i]); });
  });
}

void Lamb::step(const Update& update, std::span<const FlatPiece> pieces,
                std::span<const double> norm_parts, ThreadPool& pool) {
  if (pieces.empty()) return;
  for (auto tensor = pieces.front().tensor; tensor <= pieces.back().tensor; ++tensor)
    find_ratio(static_cast<std::size_t>(tensor), norm_parts);
  for_pieces(pool, pieces, [&](const FlatPiece& piece) {
    const Update u = update_of(piece, update);
    const Tensor parameters = buffers_.parameters.at(piece);
    float* const p = parameters.data<float>();
    const float *const m = buffers_.state[0].at(piece).data<float>(),
                       *const v = buffers_.state[1].at(piece).data<float>();
    const float rate = u.lr * ratios_[static_cast<std::size_t>(piece.tensor)];
    for (std::int64_t i = 0; i < piece.end - piece.begin; ++i)
      p[i] -= rate * change(u, eps_inside_sqrt_, p[i], m[i], v[i]);
    round_values(parameters, buffers_.weights.at(piece));
  });
}

void Lamb::find_ratio(std::size_t tensor, std::span<const double> norm_parts) {
  double weight = 0, change = 0;
  for (std::int64_t i = first_pieces_[tensor]; i < first_pieces_[tensor + 1]; ++i) {
    weight += norm_parts[static_cast<std::size_t>(2 * i)];
    change += norm_parts[static_cast<std::size_t>(2 * i + 1)];
  }
  ratios_[tensor] =
      weight == 0 || change == 0
          ? 1.0f
          : std::clamp(static_cast<float>(std::sqrt(weight / change)), min_coeff_, max_coeff_);
}

}  // namespace hgt
