#include "hgtrain/train/flat_buffers.h"

#include <algorithm>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/config/config.h"
#include "hgtrain/model/init.h"
#include "hgtrain/optim/round.h"

namespace hgt {
namespace {

/// How much is drawn at a time if it is to be rounded.
constexpr std::int64_t kDrawnElements = 1 << 20;

}  // namespace

FlatBuffers::FlatBuffers(const Config& config, const RankPlan& plan, Device device)
    : device(device),
      compute_dtype(config.precision.compute_dtype()),
      parameter_dtype(config.precision.parameter_dtype()),
      state_dtype(config.precision.state_dtype()),
      all_(plan.all_slices()),
      saved_(plan.slices().begin(), plan.slices().end()),
      updated_(plan.updated_slices()),
      tensor_(tensor_rank(plan)),
      rounds_(compute_dtype != parameter_dtype) {
  const Offload offload = device.is_cpu() ? Offload{} : offload_of(config.zero);
  const bool sends = offload.optimizer && !offload.weights;
  home = offload.optimizer ? Device::cpu() : device;
  sharded_ = sharded_at(plan.stage(), offload);
  has_masters_ = rounds_ || sends;
  rounded_is_sharded_ = sends ? sharded_.masters : sharded_.weights;
  const auto flat = [&](const std::string& name, DType dtype, bool sharded, bool offloaded) {
    const std::int64_t elements =
        sharded ? plan.sharding.shard_elements(plan.group_rank()) : plan.elements();
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
    return offloaded ? Buffer::pinned_for(device, name, bytes) : Buffer(name, bytes, device);
  };
  parameters = flat("parameters", parameter_dtype, sharded_.parameters(has_masters_),
                    offload.optimizer || (offload.weights && !rounds_));
  gradients = flat("gradients", DType::kF32, sharded_.gradients, offload.optimizer);
  if (rounds_)
    rounded =
        flat("weights", compute_dtype, rounded_is_sharded_, offload.optimizer || offload.weights);
  if (sends) sent_weights = flat("weights", compute_dtype, sharded_.weights, false);
  for (const std::string& name : hgt::optimizer_state(config.optimizer))
    optimizer_state.push_back(flat(name, state_dtype, sharded_.state, offload.optimizer));
  if (config.training.ema_decay > 0)
    ema = flat("ema", DType::kF32, sharded_.state, offload.optimizer);
}

FlatTensor FlatBuffers::flat_tensor(const Buffer& flat, DType dtype, bool sharded) const {
  if (!flat.data()) return {};
  const std::int64_t count = flat.bytes() / static_cast<std::int64_t>(size_of(dtype));
  return {Tensor(flat.data(), {count}, dtype, flat.device()), sharded};
}

FlatState FlatBuffers::state() const {
  FlatState state{parameter_values(), {}, compute_dtype, ema_values(), saved_, tensor_};
  for (const Buffer& buffer : optimizer_state)
    state.moments.push_back({buffer.name(), flat_tensor(buffer, state_dtype, sharded_.state)});
  return state;
}

Optimizer::Buffers FlatBuffers::optimizer_buffers() const {
  Optimizer::Buffers out{parameter_values(), gradient_values(), {}, {}};
  if (rounds_) out.weights = updated_weights();
  for (const Buffer& buffer : optimizer_state)
    out.state.push_back(flat_tensor(buffer, state_dtype, sharded_.state));
  return out;
}

FlatTensor FlatBuffers::parameter_values() const {
  return flat_tensor(parameters, parameter_dtype, sharded_.parameters(has_masters_));
}

FlatTensor FlatBuffers::gradient_values() const {
  return flat_tensor(gradients, DType::kF32, sharded_.gradients);
}

FlatTensor FlatBuffers::ema_values() const {
  return flat_tensor(ema, DType::kF32, sharded_.state);
}

FlatTensor FlatBuffers::weights() const {
  return sends_weights() ? flat_tensor(sent_weights, compute_dtype, sharded_.weights)
                         : updated_weights();
}

FlatTensor FlatBuffers::updated_weights() const {
  return rounds_ ? flat_tensor(rounded, compute_dtype, rounded_is_sharded_) : parameter_values();
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
  if (!rounds_) return;
  for (const Slice& slice : updated_)
    round_to(parameter_values().at(slice), updated_weights().at(slice), stream);
}

HostBuffers::HostBuffers(const FlatBuffers& buffers, const Config& config, const RankPlan& plan,
                         Stream stream)
    : buffers_(buffers), stream_(stream) {
  if (!buffers.home.is_cpu()) copy_.emplace(config, plan);
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
