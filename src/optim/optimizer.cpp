#include "hgtrain/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/base/error.h"

#include "chunks.h"
#include "device_optimizer.h"
#include "elementwise.h"
#include "fp32_window.h"
#include "lamb.h"

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
  out.one_minus_beta1 = static_cast<float>(1 - beta1);
  out.one_minus_beta2 = static_cast<float>(1 - beta2);
  out.inverse_bc1 = static_cast<float>(1 / bc1);
  out.inverse_sqrt_bc2 = static_cast<float>(1 / std::sqrt(bc2));
  out.momentum = static_cast<float>(config_.momentum);
  out.one_minus_dampening = static_cast<float>(t == 1 ? 1 : 1 - config_.dampening);
  return out;
}

void Optimizer::step(const Update* update) {
  if (device_)
    device_->step(update);
  else if (update->skip == 0)
    step_on_cpu(*update);
}

void Optimizer::step_on_cpu(Update update) {
  const auto& [parameters, gradients, states, weights] = buffers_;
  const float* const g = gradients.data<float>();
  if (lamb_) {
    lamb_->step(update,
                {parameters.data<float>(), g, states[0].data<float>(), states[1].data<float>()},
                stream_.pool());
    return for_chunks(stream_.pool(), {0, table_.total},
                      [&](Range range) { round_chunk(parameters, range, weights); });
  }
  const Kernel kernel = elementwise_kernel(config_);
  const auto state = [&](std::size_t i) { return i < states.size() ? states[i] : Tensor(); };
  const auto run = [&](Range chunk) {
    for (Range range{chunk.begin, 0}; range.begin < chunk.end; range.begin = range.end) {
      range.end = std::min(range.begin + Fp32Window::kMaxElements, chunk.end);
      const Fp32Window p(parameters, range), s1(state(0), range), s2(state(1), range);
      kernel(update, p.data(), g + range.begin, s1.data(), s2.data(), range.size());
      p.write_back(update.rounding_key, Rounded::kParameter);
      s1.write_back(update.rounding_key, Rounded::kState1);
      s2.write_back(update.rounding_key, Rounded::kState2);
    }
    round_chunk(parameters, chunk, weights);
  };
  const float weight_decay = update.weight_decay;
  for (const auto& [elements, decays] : decay_ranges(table_)) {
    update.weight_decay = decays ? weight_decay : 0;
    for_chunks(stream_.pool(), elements, run);
  }
}

}  // namespace hgt
