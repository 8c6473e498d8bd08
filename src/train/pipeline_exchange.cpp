#include "pipeline_exchange.h"

#include <exception>

#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"

namespace hgt {
namespace {

constexpr int kSender = 0;  // its rank in a group of two stages

}  // namespace

PipelineExchange::PipelineExchange(const StepShape& shape, Model& model, const UnitSlots& slots,
                                   const Groups& groups, Stream stream, WaitClock& clock)
    : shape_(shape),
      model_(model),
      tied_weights_(slots.tied_weights()),
      tied_gradients_(slots.tied_gradients()),
      groups_(groups),
      stream_(stream),
      clock_(clock),
      slots_(static_cast<std::size_t>(shape.slot_count())) {}

PipelineExchange::~PipelineExchange() {
  // If one communicator has failed, others may still use the memory.
  for_each_transfer([this](Communicator* comm, Ticket& ticket) {
    try {
      wait(comm, ticket);
    } catch (const std::exception&) {
      ticket.reset();  // it failed, so nothing arrives any more
    }
  });
}

/// Starts a transfer. If ranks split rows, a rank may have none of a small micro-batch; then
/// nothing is sent.
PipelineExchange::Ticket PipelineExchange::transfer(Communicator& comm, const Tensor& rows) {
  if (rows.numel() == 0) return std::nullopt;
  return comm.start_broadcast(bytes_of(rows), kSender);
}

void PipelineExchange::receive_input(const Action& action, const MicroBatch& batch) {
  slot_of(action).input =
      transfer(*groups_.input, model_.residual(action.block, action.slot, batch));
}

void PipelineExchange::send_output(const Action& action, const MicroBatch& batch) {
  slot_of(action).output =
      transfer(*groups_.output, model_.residual(action.block + 1, action.slot, batch));
}

void PipelineExchange::receive_gradient(const Action& action, const MicroBatch& batch) {
  Slot& slot = slot_of(action);
  wait(groups_.input_gradient, slot.input_gradient);  // that one is sent from the same memory
  slot.output_gradient =
      transfer(*groups_.output_gradient, model_.residual_gradient(action.slot, batch));
}

void PipelineExchange::send_gradient(const Action& action, const MicroBatch& batch) {
  slot_of(action).input_gradient =
      transfer(*groups_.input_gradient, model_.residual_gradient(action.slot, batch));
}

void PipelineExchange::before_forward(const Action& forward) {
  Slot& slot = slot_of(forward);
  if (shape_.begins_range(forward.block)) wait(groups_.input, slot.input);
  if (shape_.ends_range(forward.block)) wait(groups_.output, slot.output);
  if (shape_.is_head(forward.block)) wait_for_tie();
}

void PipelineExchange::before_backward(const Action& backward) {
  Slot& slot = slot_of(backward);
  if (shape_.ends_range(backward.block)) wait(groups_.output_gradient, slot.output_gradient);
  if (shape_.is_head(backward.block)) wait(groups_.input_gradient, slot.input_gradient);
}

void PipelineExchange::clear_gradients() {
  wait_for_tie();
  if (tied_gradients_ && shape_.pipeline.is_last()) clear(tied_gradients_, stream_);
}

void PipelineExchange::sum_tied() {
  tied_ = groups_.tied->start_all_reduce_sum(tied_gradients_);
}

void PipelineExchange::copy_tied() {
  tied_ = groups_.tied->start_broadcast(bytes_of(tied_weights_), kSender);
}

void PipelineExchange::wait_for_all() {
  for_each_transfer([this](Communicator* comm, Ticket& ticket) { wait(comm, ticket); });
}

template <class Fn>
void PipelineExchange::for_each_transfer(const Fn& fn) {
  for (Slot& each : slots_) {
    fn(groups_.input, each.input);
    fn(groups_.output, each.output);
    fn(groups_.input_gradient, each.input_gradient);
    fn(groups_.output_gradient, each.output_gradient);
  }
  fn(groups_.tied, tied_);
}

void PipelineExchange::wait(Communicator* comm, Ticket& ticket) {
  if (!ticket) return;
  const Span span("wait for a stage");
  clock_.measure([&] { comm->wait(*ticket); });
  ticket.reset();
}

}  // namespace hgt
