#include "device_optimizer.h"

#include <vector>

#include "hgtrain/ops/run_cuda.h"

#include "device_copy.h"
#include "lamb.h"

namespace hgt {
namespace {

UpdateRule rule_of(const OptimizerConfig& config) {
  if (config.type == "Lion") return UpdateRule::kLion;
  if (config.type == "Adagrad") return UpdateRule::kAdagrad;
  if (config.type == "SGD" && config.momentum == 0) return UpdateRule::kSgd;
  if (config.type == "SGD") return config.nesterov ? UpdateRule::kNesterov : UpdateRule::kMomentum;
  return config.type == "AdamW" || config.adam_w_mode ? UpdateRule::kAdamW : UpdateRule::kAdam;
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(const OptimizerConfig& config, const ParameterTable& table,
                                 const Optimizer::Buffers& buffers, const Pieces& pieces,
                                 const Tensor& norm_parts, Stream stream)
    : stream_(stream), is_lamb_(config.type == "Lamb") {
  const auto& [parameters, gradients, states, weights, at] = buffers;
  const auto state = [&](std::size_t i) {
    return i < states.size() ? states[i].raw() : FlatValues();
  };
  elements_ = {.rule = rule_of(config),
               .parameters = parameters.raw(),
               .gradients = gradients.raw(),
               .state1 = state(0),
               .state2 = state(1),
               .weights = weights.raw(),
               .pieces = pieces.own().data(),
               .piece_count = std::ssize(pieces.own()),
               .update = nullptr};
  if (!is_lamb_) return;
  const std::vector<std::int64_t> firsts = first_pieces(tensor_pieces(table));
  first_pieces_ = device_copy("first pieces of tensors", std::span(firsts), stream);
  lamb_ = {.parameters = elements_.parameters,
           .gradients = elements_.gradients,
           .exp_avg = elements_.state1,
           .exp_avg_sq = elements_.state2,
           .weights = elements_.weights,
           .pieces = elements_.pieces,
           .piece_count = elements_.piece_count,
           .norm_parts = norm_parts.data<double>(),
           .total_pieces = pieces.total(),
           .first_pieces = static_cast<const std::int64_t*>(first_pieces_.data()),
           .tensors = std::ssize(table.parameters),
           .min_coeff = static_cast<float>(config.min_coeff),
           .max_coeff = static_cast<float>(config.max_coeff),
           .eps_inside_sqrt = config.eps_inside_sqrt,
           .update = nullptr};
}

void DeviceOptimizer::prepare(const Update* update) {
  lamb_.update = update;
  run_cuda(stream_, &CudaOpsTable::prepare_lamb, lamb_);
}

void DeviceOptimizer::step(const Update* update) {
  elements_.update = lamb_.update = update;
  if (is_lamb_)
    run_cuda(stream_, &CudaOpsTable::update_lamb, lamb_);
  else
    run_cuda(stream_, &CudaOpsTable::update_elements, elements_);
}

}  // namespace hgt
