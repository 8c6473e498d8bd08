#include "device_optimizer.h"

#include <algorithm>
#include <vector>

#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"

namespace hgt {
namespace {

UpdateRule rule_of(const OptimizerConfig& config) {
  if (config.type == "Lion") return UpdateRule::kLion;
  if (config.type == "Adagrad") return UpdateRule::kAdagrad;
  if (config.type == "SGD" && config.momentum == 0) return UpdateRule::kSgd;
  if (config.type == "SGD") return config.nesterov ? UpdateRule::kNesterov : UpdateRule::kMomentum;
  return config.type == "AdamW" || config.adam_w_mode ? UpdateRule::kAdamW : UpdateRule::kAdam;
}

template <class T>
Buffer copy_of(const char* name, const std::vector<T>& values, Stream stream) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Buffer out(name, bytes, stream.device());
  stream.copy(out.data(), values.data(), static_cast<std::size_t>(bytes));
  stream.synchronize();  // the values are freed on return
  return out;
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(const OptimizerConfig& config, const ParameterTable& table,
                                 const Optimizer::Buffers& buffers, Stream stream)
    : stream_(stream), decay_ranges_(decay_ranges(table)), is_lamb_(config.type == "Lamb") {
  const auto& [parameters, gradients, states, weights] = buffers;
  const auto state = [&](std::size_t i) { return i < states.size() ? states[i] : Tensor(); };
  elements_ = {.rule = rule_of(config),
               .parameters = parameters.raw(),
               .parameter_type = parameters.dtype(),
               .gradients = gradients.data<float>(),
               .state1 = state(0).raw(),
               .state2 = state(1).raw(),
               .state_type = state(0).dtype(),
               .weights = weights.raw(),
               .weight_type = weights.dtype(),
               .begin = 0,
               .end = 0,
               .decays = true,
               .update = nullptr};
  if (!is_lamb_) return;
  copy_pieces(table);
  lamb_ = {.parameters = parameters.data<float>(),
           .gradients = elements_.gradients,
           .exp_avg = states[0].data<float>(),
           .exp_avg_sq = states[1].data<float>(),
           .weights = elements_.weights,
           .type = elements_.weight_type,
           .pieces = static_cast<const LambPiece*>(pieces_.data()),
           .first_pieces = static_cast<const std::int64_t*>(first_pieces_.data()),
           .piece_count = pieces_.bytes() / static_cast<std::int64_t>(sizeof(LambPiece)),
           .tensors = std::ssize(table.parameters),
           .min_coeff = static_cast<float>(config.min_coeff),
           .max_coeff = static_cast<float>(config.max_coeff),
           .eps_inside_sqrt = config.eps_inside_sqrt,
           .update = nullptr};
}

void DeviceOptimizer::copy_pieces(const ParameterTable& table) {
  std::vector<LambPiece> pieces;
  std::vector<std::int64_t> first_pieces;
  for (const Parameter& p : table.parameters) {
    first_pieces.push_back(std::ssize(pieces));
    for (std::int64_t at = 0; at < p.numel; at += kChunk)
      pieces.push_back({p.offset + at, p.offset + std::min(at + kChunk, p.numel),
                        static_cast<std::int32_t>(first_pieces.size() - 1), p.decay ? 1 : 0});
  }
  first_pieces.push_back(std::ssize(pieces));
  pieces_ = copy_of("pieces of tensors", pieces, stream_);
  first_pieces_ = copy_of("first pieces of tensors", first_pieces, stream_);
}

void DeviceOptimizer::step(const Update* update) {
  elements_.update = lamb_.update = update;
  if (is_lamb_) return run_cuda(stream_, &CudaOpsTable::update_lamb, lamb_);
  for (const auto& [range, decays] : decay_ranges_) {
    elements_.begin = range.begin;
    elements_.end = range.end;
    elements_.decays = decays;
    run_cuda(stream_, &CudaOpsTable::update_elements, elements_);
  }
}

}  // namespace hgt
