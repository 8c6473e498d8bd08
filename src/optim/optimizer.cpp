#include "hgtrain/optim/optimizer.h"

#include <cmath>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/base/error.h"

#include "chunks.h"
#include "device_optimizer.h"
#include "elementwise.h"
#include "lamb.h"

namespace hgt {
namespace {

Update make_update(const OptimizerConfig& config, const Rate& rate, double gradient_factor,
                   std::int64_t t) {
  const double beta1 = rate.beta1.value_or(config.beta1), beta2 = rate.beta2.value_or(config.beta2);
  const double power = static_cast<double>(t);
  const double bc1 = config.bias_correction ? 1 - std::pow(beta1, power) : 1;
  const double bc2 = config.bias_correction ? 1 - std::pow(beta2, power) : 1;
  const double lr = config.type == "Lamb" ? rate.lr * std::sqrt(bc2) / bc1 : rate.lr;
  return {.lr = static_cast<float>(lr),
          .gradient_factor = static_cast<float>(gradient_factor),
          .weight_decay = static_cast<float>(config.weight_decay),
          .beta1 = static_cast<float>(beta1),
          .beta2 = static_cast<float>(beta2),
          .eps = static_cast<float>(config.eps),
          .taken1 = static_cast<float>(1 - beta1),
          .taken2 = static_cast<float>(1 - beta2),
          .inverse_bc1 = static_cast<float>(1 / bc1),
          .inverse_sqrt_bc2 = static_cast<float>(1 / std::sqrt(bc2)),
          .momentum = static_cast<float>(config.momentum),
          .gradient_share = static_cast<float>(t == 1 ? 1 : 1 - config.dampening)};
}

}  // namespace

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

void Optimizer::step(const Rate& rate, double gradient_factor, std::int64_t t) {
  Update update = make_update(config_, rate, gradient_factor, t);
  if (device_) return device_->step(update);
  float* const p = buffers_.parameters.data();
  const float* const g = buffers_.gradients.data();
  const auto state = [&](std::size_t i) {
    return i < buffers_.state.size() ? buffers_.state[i].data() : nullptr;
  };
  if (lamb_) return lamb_->step(update, {p, g, state(0), state(1)}, stream_.pool());

  const Kernel kernel = elementwise_kernel(config_);
  const auto at = [](float* buffer, std::int64_t i) { return buffer ? buffer + i : nullptr; };
  const auto run = [&](Range range) {
    kernel(update, p + range.begin, g + range.begin, at(state(0), range.begin),
           at(state(1), range.begin), range.size());
  };
  for_chunks(stream_.pool(), {0, table_.decay_end}, run);
  update.weight_decay = 0;
  for_chunks(stream_.pool(), {table_.decay_end, table_.total}, run);
}

}  // namespace hgt
