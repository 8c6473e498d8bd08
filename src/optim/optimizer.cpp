#include "hgtrain/optim/optimizer.h"

#include <cmath>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/base/error.h"
#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"
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
}

Optimizer::~Optimizer() = default;

void Optimizer::step(const Rate& rate, double gradient_factor, std::int64_t t) {
  Update update = make_update(config_, rate, gradient_factor, t);
  if (!stream_.device().is_cpu()) return step_on_device(update);
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

void Optimizer::step_on_device(const Update& u) {
  if (config_.type != "AdamW" && config_.type != "Adam")
    throw Error(ErrorKind::kConfig,
                "optimizer type '" + config_.type + "' is not built for CUDA devices",
                "use AdamW, or train on the CPU: hardware.device = \"cpu\"");
  run_cuda(stream_, &CudaOpsTable::adam,
           {.parameters = buffers_.parameters.data(),
            .gradients = buffers_.gradients.data(),
            .exp_avg = buffers_.state[0].data(),
            .exp_avg_sq = buffers_.state[1].data(),
            .count = table_.total,
            .decay_end = table_.decay_end,
            .lr = u.lr,
            .beta1 = u.beta1,
            .beta2 = u.beta2,
            .eps = u.eps,
            .weight_decay = u.weight_decay,
            .gradient_factor = u.gradient_factor,
            .inverse_bc1 = u.inverse_bc1,
            .inverse_sqrt_bc2 = u.inverse_sqrt_bc2,
            .decoupled = config_.type == "AdamW" || config_.adam_w_mode});
}

}  // namespace hgt
