#include "step_exchange.h"

#include <chrono>
#include <thread>

#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"

namespace hgt {
namespace {

constexpr std::chrono::microseconds kPollInterval{20};

}  // namespace

StepExchange::StepExchange(std::int64_t micros, std::int64_t pieces, Stream stream)
    : micros_(micros),
      pieces_(pieces),
      stream_(stream),
      sums_("losses, control flags and squares", (micros + 2 + pieces) * 8, stream.device()),
      update_("update", sizeof(Update), stream.device()),
      slots_{make_slot(), make_slot()} {}

StepExchange::Slot StepExchange::make_slot() const {
  Slot slot;
  slot.memory = Buffer::pinned_for(stream_.device(), "results of a step", sizeof(Message));
  if (!stream_.device().is_cpu()) slot.fetched.emplace(stream_.queue());
  return slot;
}

Tensor StepExchange::losses() const {
  return Tensor(sums_.data(), {micros_}, DType::kF64, stream_.device());
}

Tensor StepExchange::squares() const {
  return Tensor(loss(micros_ + 2), {pieces_}, DType::kF64, stream_.device());
}

void StepExchange::clear_sums() {
  clear(Tensor(sums_.data(), {sums_.bytes() / 4}, DType::kF32, stream_.device()), stream_);
}

void StepExchange::sum_losses(Communicator& comm) const {
  const Span span("wait for sums");
  comm.all_reduce_sum(sums_.as<double>().first(static_cast<std::size_t>(micros_ + 2)));
}

void StepExchange::sum_losses_and_squares(Communicator& comm) const {
  const Span span("wait for sums");
  comm.all_reduce_sum(sums_.as<double>());
}

void StepExchange::send(const Update& update, bool stop, bool checkpoint) {
  Message& message = slot_of(sent_++).message();
  message.update = update;
  message.control_flags[0] = stop ? 1 : 0;
  message.control_flags[1] = checkpoint ? 1 : 0;
  stream_.copy(this->update(), &message.update, kUpdateFromHost);
  stream_.copy(loss(micros_), message.control_flags, sizeof message.control_flags);
}

void StepExchange::fetch() {
  Slot& slot = slot_of(sent_ - 1);
  Results& results = slot.message().results;
  stream_.copy(&results.update, update(), sizeof(Update));
  stream_.copy(&results.stop, loss(micros_), 2 * sizeof(double));
  if (slot.fetched) slot.fetched->record(stream_.queue());
}

StepExchange::Results StepExchange::take(Communicator& comm) {
  const Slot& slot = slot_of(taken_++);
  while (slot.fetched && !slot.fetched->done()) {
    comm.check();
    std::this_thread::sleep_for(kPollInterval);
  }
  comm.check();
  return slot.message().results;
}

}  // namespace hgt
