#include "unit_exchange.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/optim/round.h"

#include "host_copies.h"

namespace hgt {
namespace {

/// The slices of `all` that lie within a unit. A slice never crosses a block's border.
std::vector<Slice> slices_within(std::span<const Slice> all, Range elements) {
  std::vector<Slice> out;
  for (const Slice& slice : all)
    if (slice.elements.begin >= elements.begin && slice.elements.end <= elements.end)
      out.push_back(slice);
  return out;
}

}  // namespace

UnitExchange::UnitExchange(const RankPlan& plan, const FlatBuffers& buffers, const UnitSlots& slots,
                           Communicator& comm, Stream stream, const Update* update,
                           WaitClock& clock, DType sent, bool losses_follow)
    : plan_(plan),
      buffers_(buffers),
      slots_(slots),
      comm_(comm),
      stream_(stream),
      update_(update),
      clock_(clock),
      sent_(plan, slots, plan.group_size() == 1 ? DType::kF32 : sent, buffers.device),
      losses_follow_(losses_follow && !sent_.are_copies()) {
  const auto bytes = static_cast<std::int64_t>(size_of(buffers.compute_dtype));
  std::int64_t largest = 0;
  for (const Unit& unit : plan.shape.units) {
    UnitState& state = units_.emplace_back();
    state.owners = plan.sharding.owners(unit.place());
    state.weight_bytes = counted_in_bytes(state.owners, bytes);
    state.own = slices_within(plan.slices(), unit.elements);
    if (plan.stage() == 0 && buffers.is_offloaded()) state.own = {unit.slice()};
    for (const Slice& slice : state.own) largest = std::max(largest, slice.elements.size());
  }
  if (buffers.is_offloaded() || buffers.weights().values.device() != buffers.device)
    host_.emplace(stream.queue(), units_.size());
  if (buffers.is_offloaded() && plan.stage() >= 2 && plan.shape.max_micro_batches > 1)
    earlier_sum_ = Buffer("earlier sum of gradients", largest * 4, buffers.device);
}

UnitExchange::~UnitExchange() {
  try {
    wait_for_all();
  } catch (const std::exception&) {
    // the communicator failed: nothing of it arrives any more
  }
  try {
    if (host_) host_->to_host.synchronize(), host_->to_device.synchronize();
  } catch (const std::exception&) {
    return;  // the device failed: it copies nothing any more
  }
}

void UnitExchange::clear_gradients() {
  for (UnitState& unit : units_) unit.has_sum = false;
  if (buffers_.is_offloaded()) {
    if (plan_.stage() < 2)
      for (int unit = 0; unit < std::ssize(units_); ++unit) clear(unit);
    return;
  }
  const Tensor all = buffers_.gradient_values().values;
  if (!all) return;
  if (plan_.stage() == 0) hgt::clear(all, stream_, &update_->halted);
  if (plan_.stage() != 1) return;
  // The peers' parts are undefined: even in a halted run they must not be summed again.
  std::int64_t at = 0;
  for (const Slice& own : plan_.slices()) {
    const std::int64_t end = own.local + own.elements.size();
    hgt::clear(all.slice(0, at, own.local), stream_);
    hgt::clear(all.slice(0, own.local, end), stream_, &update_->halted);
    at = end;
  }
  hgt::clear(all.slice(0, at, plan_.elements()), stream_);
}

void UnitExchange::gather(int unit) {
  if (state(unit).owners.empty()) return;
  if (buffers_.weights().sharded) copy_own_weights(unit);
  state(unit).gathering =
      comm_.start_all_gather(bytes_of(slots_.weights(unit)), state(unit).weight_bytes);
}

/// Copies the weights from the shard to the unit's slot. If the shard is offloaded, neither the
/// computation nor the collectives that were started before wait for the copy.
void UnitExchange::copy_own_weights(int unit) {
  const FlatTensor shard = buffers_.weights();
  const bool offloaded = shard.values.device() != buffers_.device;
  const Stream copies = offloaded ? Stream(host_->to_device) : stream_;
  if (offloaded) order_after(host_->to_device, stream_.queue(), host_->computed);
  for (const Slice& slice : state(unit).own) {
    const Tensor from = shard.at(slice), to = part_of(slots_.weights(unit), unit, slice);
    copies.copy(to.raw(), from.raw(), from.bytes());
  }
  if (!offloaded) return;
  host_->arrived[static_cast<std::size_t>(unit)].record(host_->to_device);
  state(unit).is_arriving = true;
  comm_.come_after(host_->to_device);
}

/// The slot may be written again once its gathering is over, also if no computation waited for it.
void UnitExchange::release(int unit) {
  wait_for_weights(unit);
}

void UnitExchange::clear(int unit) {
  hgt::clear(slots_.gradients(unit), stream_);
}

void UnitExchange::reduce(int unit) {
  if (state(unit).owners.empty()) return;
  const Tensor gradients = sent_.round(unit, stream_);
  const std::uint64_t ticket = plan_.stage() == 0
                                   ? comm_.start_all_reduce_sum(gradients)
                                   : comm_.start_reduce_scatter_sum(gradients, state(unit).owners);
  if (buffers_.is_offloaded())
    copy_to_host(unit, ticket);
  else if (!losses_follow_)
    state(unit).reducing = ticket;
}

/// Copies this rank's part of the sum to the host once it is there. The sum of earlier
/// micro-batches comes back and is added on the GPU, because the host would have to wait for each
/// part.
void UnitExchange::copy_to_host(int unit, std::uint64_t ticket) {
  UnitState& u = state(unit);
  const CudaQueue& copies = host_->to_host;
  order_after(copies, stream_.queue(), host_->computed);
  comm_.make_wait(ticket, copies);
  take_back_sum(unit, copies);
  for (const Slice& slice : u.own) {
    const Tensor sum = part_of(slots_.gradients(unit), unit, slice),
                 kept = buffers_.gradient_values().at(slice);
    const std::size_t bytes = sum.bytes();
    if (u.has_sum) {
      const Tensor earlier(earlier_sum_.data(), {sum.numel()}, DType::kF32, buffers_.device);
      copies.copy(earlier.raw(), kept.raw(), bytes);
      hgt::accumulate(earlier, sum, false, copies);
    }
    copies.copy(kept.raw(), sum.raw(), bytes);
  }
  u.has_sum = true;
  host_->left[static_cast<std::size_t>(unit)].record(copies);
}

void UnitExchange::accumulate(int unit) {
  UnitState& u = state(unit);
  if (buffers_.is_offloaded()) return wait(host_->left[static_cast<std::size_t>(unit)]);
  wait_for_sum(unit);
  for (const Slice& slice : u.own)
    hgt::accumulate(part_of(slots_.gradients(unit), unit, slice),
                    buffers_.gradient_values().at(slice), !u.has_sum, stream_, &update_->halted);
  u.has_sum = true;
}

void UnitExchange::require_parameters(int block) {
  const StepShape& shape = plan_.shape;
  wait_for_weights(shape.unit_of(block));
  if (shape.is_tied_here() && shape.is_head(block)) wait_for_weights(0);
}

void UnitExchange::wait_for_sums() {
  if (buffers_.is_offloaded()) {
    const Span span("wait for gradients on the host");
    return clock_.measure([&] {
      host_->copied.record(host_->to_host);
      wait_on_host(host_->copied, comm_);
      host_->computed.record(stream_.queue());
      wait_on_host(host_->computed, comm_);
    });
  }
  std::optional<std::uint64_t> last;
  for (const UnitState& unit : units_) last = std::max(last, unit.reducing);
  wait(last);
  for (int unit = 0; unit < std::ssize(units_); ++unit)
    if (std::exchange(state(unit).reducing, {})) take_back_sum(unit, stream_);
}

void UnitExchange::send(int unit) {
  for (const Slice& slice : state(unit).own) {
    const Tensor from = buffers_.updated_weights().at(slice), to = buffers_.weights().at(slice);
    host_->to_device.copy(to.raw(), from.raw(), from.bytes());
  }
}

void UnitExchange::finish_sending() {
  order_after(stream_.queue(), host_->to_device, host_->copied);
}

void UnitExchange::wait_for_all() {
  for (int unit = 0; unit < std::ssize(units_); ++unit) wait_for_weights(unit), wait_for_sum(unit);
}

void UnitExchange::wait_for_sum(int unit) {
  if (!state(unit).reducing) return;
  wait(state(unit).reducing);
  take_back_sum(unit, stream_);
}

/// Copies the sum back into the gradients: all of it, or this rank's own part.
void UnitExchange::take_back_sum(int unit, Stream stream) {
  if (!sent_.are_copies()) return;
  const Tensor sum = sent_.copy(unit), gradients = slots_.gradients(unit);
  if (plan_.stage() == 0) return round_to(sum, gradients, stream);
  for (const Slice& slice : state(unit).own)
    round_to(part_of(sum, unit, slice), part_of(gradients, unit, slice), stream);
}

void UnitExchange::wait_for_weights(int unit) {
  wait(state(unit).gathering);
  if (std::exchange(state(unit).is_arriving, false))
    wait(host_->arrived[static_cast<std::size_t>(unit)]);
}

void UnitExchange::wait(std::optional<std::uint64_t>& ticket) {
  if (!ticket) return;
  const Span span("wait for peers' parts");
  clock_.measure([&] { comm_.wait(*ticket); });
  ticket.reset();
}

void UnitExchange::wait(const CudaEvent& copy) {
  clock_.measure([&] { copy.make_wait(stream_.queue()); });
}

Tensor UnitExchange::part_of(const Tensor& unit_values, int unit, const Slice& slice) const {
  const std::int64_t begin = plan_.shape.units[static_cast<std::size_t>(unit)].elements.begin;
  return unit_values.slice(0, slice.elements.begin - begin, slice.elements.end - begin);
}

}  // namespace hgt
