#include "hgtrain/train/flat_buffers.h"

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/model/init.h"
#include "hgtrain/optim/round.h"

namespace hgt {
namespace {

Tensor values_of(const Buffer& flat, DType dtype) {
  if (flat.bytes() == 0) return {};
  const std::int64_t count = flat.bytes() / static_cast<std::int64_t>(size_of(dtype));
  return Tensor(flat.data(), {count}, dtype, flat.device());
}

}  // namespace

FlatBuffers::FlatBuffers(const ParameterTable& table, const Config& config, Device device)
    : compute_dtype(config.precision.compute_dtype()),
      parameter_dtype(config.precision.parameter_dtype()),
      state_dtype(config.precision.state_dtype()) {
  const auto flat = [&](const std::string& name, DType dtype) {
    return Buffer(name, table.total * static_cast<std::int64_t>(size_of(dtype)), device);
  };
  parameters = flat("parameters", parameter_dtype);
  gradients = flat("gradients", DType::kF32);
  if (compute_dtype != parameter_dtype) rounded = flat("weights", compute_dtype);
  for (const std::string& name : hgt::optimizer_state(config.optimizer))
    optimizer_state.push_back(flat(name, state_dtype));
  if (config.training.ema_decay > 0) ema = flat("ema", DType::kF32);
}

FlatState FlatBuffers::state() const {
  FlatState state{{parameter_values()}, {}, compute_dtype, {ema_values()}, {}};
  state.slices.push_back({{0, state.parameters.values.numel()}, 0});
  for (const Buffer& buffer : optimizer_state)
    state.moments.push_back({buffer.name(), {values_of(buffer, state_dtype)}});
  return state;
}

Optimizer::Buffers FlatBuffers::optimizer_buffers() const {
  Optimizer::Buffers out{
      {parameter_values()}, {gradient_values()}, {}, {values_of(rounded, compute_dtype)}};
  for (const Buffer& buffer : optimizer_state)
    out.state.push_back({values_of(buffer, state_dtype)});
  return out;
}

Tensor FlatBuffers::parameter_values() const {
  return values_of(parameters, parameter_dtype);
}

Tensor FlatBuffers::gradient_values() const {
  return values_of(gradients, DType::kF32);
}

Tensor FlatBuffers::ema_values() const {
  return values_of(ema, DType::kF32);
}

Tensor FlatBuffers::weights() const {
  return compute_dtype == parameter_dtype ? parameter_values() : values_of(rounded, compute_dtype);
}

void FlatBuffers::initialize(const ParameterTable& table, std::uint64_t seed,
                             ThreadPool& pool) const {
  if (parameter_dtype == DType::kF32) {
    init_parameters(table, seed, parameters.as<float>(), pool);
  } else {
    const Buffer drawn("drawn parameters", table.total * 4);
    init_parameters(table, seed, drawn.as<float>(), pool);
    round_to(values_of(drawn, DType::kF32), parameter_values(), pool);
  }
  begin_ema(pool);
}

void FlatBuffers::begin_ema(ThreadPool& pool) const {
  if (ema_values()) round_to(parameter_values(), ema_values(), pool);
}

void FlatBuffers::round_weights(Stream stream) const {
  if (compute_dtype != parameter_dtype) round_to(parameter_values(), weights(), stream);
}

HostBuffers::HostBuffers(const FlatBuffers& buffers, const ParameterTable& table,
                         const Config& config, Stream stream)
    : buffers_(buffers), stream_(stream) {
  if (!stream.device().is_cpu()) copy_.emplace(table, config);
}

template <class Fn>
void HostBuffers::for_each_pair(const Fn& fn) const {
  if (!copy_) return;
  fn(buffers_.parameters, copy_->parameters);
  fn(buffers_.ema, copy_->ema);
  for (std::size_t i = 0; i < buffers_.optimizer_state.size(); ++i)
    fn(buffers_.optimizer_state[i], copy_->optimizer_state[i]);
  stream_.synchronize();
}

void HostBuffers::fetch() const {
  for_each_pair([&](const Buffer& device, const Buffer& host) {
    stream_.copy(host.data(), device.data(), static_cast<std::size_t>(host.bytes()));
  });
}

void HostBuffers::store() const {
  for_each_pair([&](const Buffer& device, const Buffer& host) {
    stream_.copy(device.data(), host.data(), static_cast<std::size_t>(host.bytes()));
  });
}

}  // namespace hgt
