#include "step_exchange.h"

#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"

#include "host_copies.h"

namespace hgt {
namespace {

constexpr std::int64_t kFlags = 2, kUsages = sizeof(RankUsage) / sizeof(double);

Buffer sums_buffer(std::int64_t bytes, Stream stream, Stream updates) {
  const char* const name = "losses, control flags, usages and squares";
  return updates.device().is_cpu() ? Buffer::pinned_for(stream.device(), name, bytes)
                                   : Buffer(name, bytes, updates.device());
}

}  // namespace

StepExchange::StepExchange(std::int64_t micros, std::int64_t pieces, Stream stream, Stream updates,
                           int rank, int ranks)
    : micros_(micros),
      pieces_(pieces),
      rank_(rank),
      ranks_(ranks),
      compute_(stream),
      stream_(updates),
      sums_(sums_buffer((micros + kFlags + ranks * kUsages + pieces) * 8, stream, updates)),
      update_("update", sizeof(Update), updates.device()),
      slots_{make_slot(), make_slot()} {}

StepExchange::Slot StepExchange::make_slot() const {
  Slot slot;
  const std::int64_t bytes = static_cast<std::int64_t>(sizeof(Message)) + returned_bytes();
  slot.memory = Buffer::pinned_for(stream_.device(), "results of a step", bytes);
  if (!compute_.device().is_cpu()) slot.fetched.emplace(compute_.queue());
  return slot;
}

Tensor StepExchange::losses() const {
  return Tensor(sums_.data(), {micros_}, DType::kF64, stream_.device());
}

Tensor StepExchange::squares() const {
  return Tensor(usages() + ranks_, {pieces_}, DType::kF64, stream_.device());
}

void StepExchange::clear_sums() {
  clear(Tensor(sums_.data(), {sums_.bytes() / 4}, DType::kF32, stream_.device()), stream_);
}

void StepExchange::sum_losses(Communicator& comm) const {
  const Span span("wait for sums");
  comm.all_reduce_sum(
      sums_.as<double>().first(static_cast<std::size_t>(micros_ + kFlags + ranks_ * kUsages)));
}

void StepExchange::sum_losses_and_squares(Communicator& comm) const {
  const Span span("wait for sums");
  comm.all_reduce_sum(sums_.as<double>());
}

void StepExchange::send(const Update& update, ControlFlags requests, const RankUsage& usage) {
  Message& message = slot_of(sent_++).message();
  message.update = update;
  message.control_flags[0] = requests.stop ? 1 : 0;
  message.control_flags[1] = requests.checkpoint ? 1 : 0;
  message.usage = usage;
  stream_.copy(this->update(), &message.update, kUpdateFromHostBytes);
  stream_.copy(flags(), message.control_flags, sizeof message.control_flags);
  stream_.copy(usages() + rank_, &message.usage, sizeof message.usage);
}

void StepExchange::fetch() {
  Slot& slot = slot_of(sent_ - 1);
  stream_.copy(&slot.message().result, update(), sizeof(Update));
  stream_.copy(slot.flags(), flags(), static_cast<std::size_t>(returned_bytes()));
  if (slot.fetched) slot.fetched->record(compute_.queue());
}

StepExchange::Results StepExchange::take(Communicator& comm) {
  const Slot& slot = slot_of(taken_++);
  if (slot.fetched) wait_on_host(*slot.fetched, comm);
  comm.check();
  Results results{slot.message().result, slot.flags()[0], slot.flags()[1], {}};
  for (int rank = 0; rank < ranks_; ++rank)
    results.usage = largest(results.usage, slot.usages()[rank]);
  return results;
}

std::int64_t StepExchange::returned_bytes() const {
  return (kFlags + ranks_ * kUsages) * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace hgt
