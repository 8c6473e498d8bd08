#include "unit_exchange.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"

namespace hgt {
namespace {

template <class T>
std::span<T> elements_of(const Tensor& tensor) {
  return {tensor.data<T>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()),
          static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype())};
}

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
                           WaitClock& clock)
    : plan_(plan),
      buffers_(buffers),
      slots_(slots),
      comm_(comm),
      stream_(stream),
      update_(update),
      clock_(clock) {
  const auto bytes = static_cast<std::int64_t>(size_of(buffers.compute_dtype));
  for (const Unit& unit : plan.shape.units) {
    UnitState& state = units_.emplace_back();
    state.owners = state.weight_bytes = plan.sharding.owners(unit.elements);
    for (OwnedRange& owned : state.weight_bytes)
      owned.elements = {owned.elements.begin * bytes, owned.elements.end * bytes};
    state.own = slices_within(plan.slices(), unit.elements);
  }
}

UnitExchange::~UnitExchange() {
  try {
    wait_for_all();
  } catch (const std::exception&) {
    return;  // the communicator failed: nothing of it arrives any more
  }
}

void UnitExchange::clear_gradients() {
  for (UnitState& unit : units_) unit.has_sum = false;
  const FlatTensor all = buffers_.gradient_values();
  if (plan_.stage() == 0) hgt::clear(all.values, stream_, &update_->halted);
  if (plan_.stage() != 1) return;
  // The peers' parts are undefined: even in a halted run they must not be summed again.
  std::int64_t at = plan_.elements().begin;
  for (const auto& [own, local] : plan_.slices()) {
    hgt::clear(all.at(Slice{{at, own.begin}, 0}), stream_);
    hgt::clear(all.at(Slice{own, 0}), stream_, &update_->halted);
    at = own.end;
  }
  hgt::clear(all.at(Slice{{at, plan_.elements().end}, 0}), stream_);
}

void UnitExchange::gather(int unit) {
  const Tensor weights = slots_.weights(unit);
  if (const FlatTensor shard = buffers_.weights(); shard.sharded)
    for (const Slice& slice : state(unit).own) {
      const Tensor from = shard.at(slice), to = part_of(weights, unit, slice);
      stream_.copy(to.raw(), from.raw(), bytes_of(from).size());
    }
  state(unit).gathering = comm_.start_all_gather(bytes_of(weights), state(unit).weight_bytes);
}

/// The slot may be written again once its gathering is over, also if no computation waited for it.
void UnitExchange::release(int unit) {
  wait(state(unit).gathering);
}

void UnitExchange::clear(int unit) {
  hgt::clear(slots_.gradients(unit), stream_);
}

void UnitExchange::reduce(int unit) {
  const std::span<float> gradients = elements_of<float>(slots_.gradients(unit));
  state(unit).reducing = plan_.stage() == 0
                             ? comm_.start_all_reduce_sum(gradients)
                             : comm_.start_reduce_scatter_sum(gradients, state(unit).owners);
}

void UnitExchange::accumulate(int unit) {
  UnitState& u = state(unit);
  wait(u.reducing);
  for (const Slice& slice : u.own)
    hgt::accumulate(part_of(slots_.gradients(unit), unit, slice),
                    buffers_.gradient_values().at(slice), !u.has_sum, stream_, &update_->halted);
  u.has_sum = true;
}

void UnitExchange::require_parameters(int block) {
  const StepShape& shape = plan_.shape;
  wait(state(shape.unit_of(block)).gathering);
  if (shape.is_tied_here() && shape.is_head(block)) wait(state(0).gathering);
}

void UnitExchange::wait_for_sums() {
  std::optional<std::uint64_t> last;
  for (UnitState& unit : units_) last = std::max(last, std::exchange(unit.reducing, {}));
  wait(last);
}

void UnitExchange::wait_for_all() {
  for (UnitState& unit : units_) wait(unit.gathering), wait(unit.reducing);
}

void UnitExchange::wait(std::optional<std::uint64_t>& ticket) {
  if (!ticket) return;
  const Span span("wait for peers' parts");
  clock_.measure([&] { comm_.wait(*ticket); });
  ticket.reset();
}

Tensor UnitExchange::part_of(const Tensor& unit_values, int unit, const Slice& slice) const {
  const std::int64_t begin = plan_.shape.units[static_cast<std::size_t>(unit)].elements.begin;
  return unit_values.slice(0, slice.elements.begin - begin, slice.elements.end - begin);
}

}  // namespace hgt
