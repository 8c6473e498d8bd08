#include "hgtrain/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hgtrain/arch/flat_spec.h"
#include "hgtrain/base/error.h"
#include "hgtrain/ops/flat.h"

#include "cpu_loops.h"
#include "device_optimizer.h"
#include "elementwise.h"
#include "fp32_window.h"
#include "lamb.h"

namespace hgt {
namespace {

bool is_lamb(const OptimizerConfig& config) {
  return config.type == "Lamb";
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterTable& table,
                     const Buffers& buffers, std::span<const Slice> slices, Stream stream)
    : config_(config),
      buffers_(buffers),
      stream_(stream),
      pieces_(tensor_pieces(table, buffers.tensor), slices, stream) {
  const std::size_t wanted = optimizer_state(config).size();
  if (buffers.state.size() != wanted)
    throw Error(ErrorKind::kInternal, "the optimizer's state is not what optimizer_state() says");
  if (is_lamb(config))
    norm_parts_ = Buffer("norms of pieces", pieces_.total() * 2 * 8, stream.device());
  if (!stream.device().is_cpu())
    device_ =
        std::make_unique<DeviceOptimizer>(config, table, buffers, pieces_, norm_parts(), stream);
  else if (is_lamb(config))
    lamb_ = std::make_unique<Lamb>(config, table, buffers);
}

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterTable& table,
                     const Buffers& buffers, Stream stream)
    : Optimizer(config, table, buffers, std::array{Slice{{0, table.total}}}, stream) {}

Optimizer::~Optimizer() = default;

Update Optimizer::constants(const Rate& rate, std::int64_t t) const {
  const double beta1 = rate.beta1.value_or(config_.beta1),
               beta2 = rate.beta2.value_or(config_.beta2);
  const double power = static_cast<double>(t);
  const double bc1 = config_.bias_correction ? 1 - std::pow(beta1, power) : 1;
  const double bc2 = config_.bias_correction ? 1 - std::pow(beta2, power) : 1;
  Update out{};
  out.lr = static_cast<float>(is_lamb(config_) ? rate.lr * std::sqrt(bc2) / bc1 : rate.lr);
  out.weight_decay = static_cast<float>(config_.weight_decay);
  out.beta1 = static_cast<float>(beta1);
  out.beta2 = static_cast<float>(beta2);
  out.eps = static_cast<float>(config_.eps);
  out.one_minus_beta1 = static_cast<float>(1 - beta1);
  out.one_minus_beta2 = static_cast<float>(1 - beta2);
  out.inverse_bc1 = static_cast<float>(1 / bc1);
  out.inverse_sqrt_bc2 = static_cast<float>(1 / std::sqrt(bc2));
  out.momentum = static_cast<float>(config_.momentum);
  out.one_minus_dampening = static_cast<float>(t == 1 ? 1 : 1 - config_.dampening);
  return out;
}

Tensor Optimizer::norm_parts() const {
  if (norm_parts_.bytes() == 0) return {};
  return Tensor(norm_parts_.data(), {2 * pieces_.total()}, DType::kF64, stream_.device());
}

void Optimizer::prepare(const Update* update) {
  if (!is_lamb(config_)) return;
  const std::int64_t floats = norm_parts_.bytes() / 4;
  clear(Tensor(norm_parts_.data(), {floats}, DType::kF32, stream_.device()), stream_);
  if (device_)
    device_->prepare(update);
  else if (update->skip == 0)
    lamb_->prepare(*update, pieces_, norm_parts_.as<double>(), stream_.pool());
}

void Optimizer::step(const Update* update) {
  if (device_)
    device_->step(update);
  else if (update->skip == 0)
    step_on_cpu(*update, pieces_.own());
}

void Optimizer::step(const Update* update, Range elements) {
  if (update->skip == 0) step_on_cpu(*update, pieces_.own_in(elements));
}

void Optimizer::step_on_cpu(const Update& update, std::span<const FlatPiece> pieces) {
  if (lamb_) return lamb_->step(update, pieces, norm_parts_.as<double>(), stream_.pool());
  const auto& [parameters, gradients, states, weights, at] = buffers_;
  const auto state = [&](std::size_t i) { return i < states.size() ? states[i] : FlatTensor(); };
  const FlatTensor state1 = state(0), state2 = state(1);
  const Kernel kernel = elementwise_kernel(config_);
  for_pieces(stream_.pool(), pieces, [&](const FlatPiece& piece) {
    Update u = update;
    if (piece.decay == 0) u.weight_decay = 0;
    FlatPiece part = piece;
    for (; part.begin < piece.end;
         part.local += Fp32Window::kMaxElements, part.in_shard += Fp32Window::kMaxElements) {
      part.end = std::min(part.begin + Fp32Window::kMaxElements, piece.end);
      const Fp32Window p(parameters.at(part), part), s1(state1.at(part), part),
          s2(state2.at(part), part);
      kernel(u, p.data(), gradients.at(part).data<float>(), s1.data(), s2.data(),
             part.end - part.begin);
      p.write_back(u.rounding_key, Rounded::kParameter);
      s1.write_back(u.rounding_key, Rounded::kState1);
      s2.write_back(u.rounding_key, Rounded::kState2);
      round_values(parameters.at(part), weights.at(part));
      part.begin = part.end;
    }
  });
}

}  // namespace hgt
