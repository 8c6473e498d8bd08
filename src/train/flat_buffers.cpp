#include "hgtrain/train/flat_buffers.h"

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/optim/round.h"

namespace hgt {

FlatBuffers::FlatBuffers(const ParameterTable& table, const Config& config, Device device)
    : parameters("parameters", table.total * 4, device),
      gradients("gradients", table.total * 4, device),
      compute_dtype(config.precision.compute_dtype()) {
  if (compute_dtype != DType::kF32)
    rounded =
        Buffer("weights", table.total * static_cast<std::int64_t>(size_of(compute_dtype)), device);
  for (const std::string& name : hgt::optimizer_state(config.optimizer))
    optimizer_state.emplace_back(name, table.total * 4, device);
  if (config.training.ema_decay > 0) ema = Buffer("ema", table.total * 4, device);
}

FlatState FlatBuffers::state() const {
  FlatState state{parameters.as<float>(), {}, compute_dtype, ema.as<float>()};
  for (const Buffer& buffer : optimizer_state)
    state.moments.push_back({buffer.name(), buffer.as<float>()});
  return state;
}

Tensor FlatBuffers::weights() const {
  return compute_dtype == DType::kF32 ? flat_tensor(parameters) : rounded_weights();
}

Tensor FlatBuffers::rounded_weights() const {
  if (compute_dtype == DType::kF32) return {};
  return Tensor(rounded.data(), {parameters.bytes() / 4}, compute_dtype, rounded.device());
}

void FlatBuffers::round_weights(Stream stream) const {
  if (compute_dtype != DType::kF32) round_to(flat_tensor(parameters), weights(), stream);
}

Tensor flat_tensor(const Buffer& buffer) {
  return Tensor(buffer.data(), {buffer.bytes() / 4}, DType::kF32, buffer.device());
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
