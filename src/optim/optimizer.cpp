#include "hgtrain/optim/optimizer.h"

#include <cmath>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/base/error.h"

#include "chunks.h"
#include "device_optimizer.h"
#include "elementwise.h"
#include "lamb.h"
#include "round_chunk.h"

namespace hgt {

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterTable& table,
                     const Buffers& buffers, Stream stream)
    : config_(config),
      table_(table),
      buffers_(buffers),
      stream_(stream),
      lamb_(config.type == "Lamb" ? std::make_unique<Lamb>(config, table) : nullptr) {
  const std::size_t wanted = optimizer_state(config).size();
  if (buffers.state.size() != wanted)
    throw Error(ErrorKind::kInternal, "the optimizer's state is not what optimizer_state() says");
  if (!stream.device().is_cpu())
    device_ = std::make_unique<DeviceOptimizer>(config, table, buffers, stream);
}

Optimizer::~Optimizer() = default;

Update Optimizer::constants(const Rate& rate, std::int64_t t) const {
  const double beta1 = rate.beta1.value_or(config_.beta1),
               beta2 = rate.beta2.value_or(config_.beta2);
  const double power = static_cast<double>(t);
  const double bc1 = config_.bias_correction ? 1 - std::pow(beta1, power) : 1;
  const double bc2 = config_.bias_correction ? 1 - std::pow(beta2, power) : 1;
  Update out{};
  out.lr = static_cast<float>(lamb_ ? rate.lr * std::sqrt(bc2) / bc1 : rate.lr);
  out.weight_decay = static_cast<float>(config_.weight_decay);
  out.beta1 = static_cast<float>(beta1);
  out.beta2 = static_cast<float>(beta2);
  out.eps = static_cast<float>(config_.eps);
  out.taken1 = static_cast<float>(1 - beta1);
  out.taken2 = static_cast<float>(1 - beta2);
  out.inverse_bc1 = static_cast<float>(1 / bc1);
  out.inverse_sqrt_bc2 = static_cast<float>(1 / std::sqrt(bc2));
  out.momentum = static_cast<float>(config_.momentum);
  out.gradient_share = static_cast<float>(t == 1 ? 1 : 1 - config_.dampening);
  return out;
}

void Optimizer::step(const Update* update) {
  if (device_)
    device_->step(update);
  else if (update->skip == 0)
    step_on_cpu(*update);
}

void Optimizer::step_on_cpu(Update update) {
  float* const p = buffers_.parameters.data();
  const float* const g = buffers_.gradients.data();
  const auto state = [&](std::size_t i) {
    return i < buffers_.state.size() ? buffers_.state[i].data() : nullptr;
  };
  const auto round = [&](Range range) { round_chunk(p, range, buffers_.weights); };
  if (lamb_) {
    lamb_->step(update, {p, g, state(0), state(1)}, stream_.pool());
    return for_chunks(stream_.pool(), {0, table_.total}, round);
  }
  const Kernel kernel = elementwise_kernel(config_);
  const auto at = [](float* buffer, std::int64_t i) { return buffer ? buffer + i : nullptr; };
  const auto run = [&](Range range) {
    kernel(update, p + range.begin, g + range.begin, at(state(0), range.begin),
           at(state(1), range.begin), range.size());
    round(range);
  };
  for_chunks(stream_.pool(), {0, table_.decay_end}, run);
  update.weight_decay = 0;
  for_chunks(stream_.pool(), {table_.decay_end, table_.total}, run);
}

}  // namespace hgt
