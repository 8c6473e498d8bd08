#include "hgtrain/train/flat_buffers.h"

#include <algorithm>

#include "hgtrain/config/config.h"
#include "hgtrain/device/upload.h"
#include "hgtrain/model/init.h"
#include "hgtrain/optim/round.h"

namespace hgt {
namespace {

/// How many elements are drawn at a time if they must be rounded.
constexpr std::int64_t kDrawnElements = 1 << 20;

FlatTensor flat_tensor(const Buffer& flat, const FlatBufferSpec& spec) {
  if (!flat.data()) return {};
  const std::int64_t count = flat.bytes() / static_cast<std::int64_t>(size_of(spec.dtype));
  return {Tensor(flat.data(), {count}, spec.dtype, flat.device()), spec.sharded};
}

}  // namespace

FlatBuffers::FlatBuffers(const Config& config, const RankPlan& plan, Device device)
    : device(device),
      spec(flat_spec(config, plan.stage(), !device.is_cpu())),
      compute_dtype(config.precision.compute_dtype()),
      all_(plan.all_slices()),
      saved_(plan.slices().begin(), plan.slices().end()),
      updated_(plan.updated_slices()),
      tensor_(tensor_rank(plan)) {
  home = spec.gradients.offloaded ? Device::cpu() : device;
  const auto flat = [&](const FlatBufferSpec& buffer) {
    const std::int64_t elements =
        buffer.sharded ? plan.sharding.shard_elements(plan.group_rank()) : plan.elements();
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(buffer.dtype));
    return buffer.offloaded ? Buffer::pinned_for(device, buffer.name, bytes)
                            : Buffer(buffer.name, bytes, device);
  };
  parameters = flat(spec.parameters);
  gradients = flat(spec.gradients);
  if (spec.rounded) rounded = flat(*spec.rounded);
  if (spec.sent) sent_weights = flat(*spec.sent);
  for (const FlatBufferSpec& buffer : spec.state) optimizer_state.push_back(flat(buffer));
  if (spec.ema) ema = flat(*spec.ema);
}

FlatState FlatBuffers::state() const {
  FlatState state{parameter_values(), {}, compute_dtype, ema_values(), saved_, tensor_};
  for (std::size_t i = 0; i < spec.state.size(); ++i)
    state.moments.push_back({spec.state[i].name, flat_tensor(optimizer_state[i], spec.state[i])});
  return state;
}

Optimizer::Buffers FlatBuffers::optimizer_buffers() const {
  Optimizer::Buffers out{parameter_values(), gradient_values(), {}, {}, tensor_};
  if (spec.rounded) out.weights = updated_weights();
  for (std::size_t i = 0; i < spec.state.size(); ++i)
    out.state.push_back(flat_tensor(optimizer_state[i], spec.state[i]));
  return out;
}

FlatTensor FlatBuffers::parameter_values() const {
  return flat_tensor(parameters, spec.parameters);
}

FlatTensor FlatBuffers::gradient_values() const {
  return flat_tensor(gradients, spec.gradients);
}

FlatTensor FlatBuffers::ema_values() const {
  return spec.ema ? flat_tensor(ema, *spec.ema) : FlatTensor{};
}

FlatTensor FlatBuffers::weights() const {
  return spec.sent ? flat_tensor(sent_weights, *spec.sent) : updated_weights();
}

FlatTensor FlatBuffers::updated_weights() const {
  return spec.rounded ? flat_tensor(rounded, *spec.rounded) : parameter_values();
}

void FlatBuffers::initialize(const ParameterTable& table, std::uint64_t seed,
                             ThreadPool& pool) const {
  const FlatTensor values = parameter_values();
  for (const Slice& slice : values.sharded ? updated_ : all_) {
    const Tensor out = values.at(slice);
    for (std::int64_t at = 0; at < out.numel(); at += kDrawnElements) {
      const std::int64_t count = std::min(kDrawnElements, out.numel() - at);
      const Tensor part = out.slice(0, at, at + count);
      const Buffer drawn("drawn parameters", part.dtype() == DType::kF32 ? 0 : count * 4);
      float* const to = drawn.bytes() == 0 ? part.data<float>() : drawn.as<float>().data();
      init_parameters(table, seed, {slice.elements.begin + at, slice.elements.begin + at + count},
                      {to, static_cast<std::size_t>(count)}, pool, tensor_);
      if (drawn.bytes() > 0) round_to(Tensor(to, {count}), part, pool);
    }
  }
  begin_ema(pool);
}

void FlatBuffers::begin_ema(ThreadPool& pool) const {
  if (!ema_values()) return;
  for (const Slice& slice : updated_)
    round_to(parameter_values().at(slice), ema_values().at(slice), pool);
}

void FlatBuffers::round_weights(Stream stream) const {
  if (!spec.rounded) return;
  for (const Slice& slice : updated_)
    round_to(parameter_values().at(slice), updated_weights().at(slice), stream);
}

HostBuffers::HostBuffers(const FlatBuffers& buffers, const Config& config, const RankPlan& plan,
                         Stream stream)
    : buffers_(buffers), stream_(stream) {
  if (!buffers.home.is_cpu()) copy_.emplace(config, plan);
}

void HostBuffers::store(bool with_state) const {
  if (!copy_) return;
  const auto copy = [&](const Buffer& to, const Buffer& from) {
    upload(to.data(), from.data(), static_cast<std::size_t>(from.bytes()), stream_);
  };
  copy(buffers_.parameters, copy_->parameters);
  copy(buffers_.ema, copy_->ema);
  if (!with_state) return;
  for (std::size_t i = 0; i < buffers_.optimizer_state.size(); ++i)
    copy(buffers_.optimizer_state[i], copy_->optimizer_state[i]);
}

}  // namespace hgt
