#include "hgtrain/device/cuda_queue.h"

#include <chrono>
#include <thread>

namespace hgt {
namespace {

CudaStreamState* make_stream(Device device, const CudaModule& module) {
  CudaStreamState* state = nullptr;
  check(module.device().create_stream(device.index, &state));
  return state;
}

CudaEventState* make_event(const CudaQueue& queue) {
  CudaEventState* state = nullptr;
  check(queue.module().device().create_event(queue.device().index, &state));
  return state;
}

}  // namespace

CudaQueue::CudaQueue(Device device, const CudaModule& module)
    : device_(device),
      module_(&module),
      state_(make_stream(device, module), module.device().destroy_stream) {}

CudaDeviceProperties CudaQueue::properties() const {
  CudaDeviceProperties out;
  check(module_->device().properties(device_.index, &out));
  return out;
}

CudaQueue::Memory CudaQueue::memory() const {
  std::uint64_t free = 0, total = 0;
  check(module_->device().memory_info(device_.index, &free, &total));
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

void CudaQueue::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  check(module_->device().copy(to, from, bytes, state()));
}

void CudaQueue::copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t row_bytes, std::size_t rows) const {
  check(module_->device().copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, state()));
}

void CudaQueue::synchronize() const {
  check(module_->device().synchronize_stream(state()));
}

void CudaQueue::run_between_graphs(const std::function<void()>& call) const {
  if (graph_ == nullptr) return call();
  graph_->cut(*this, call);
}

CudaEvent::CudaEvent(const CudaQueue& queue)
    : module_(&queue.module()), state_(make_event(queue), module_->device().destroy_event) {}

void CudaEvent::record(const CudaQueue& queue) {
  check(module_->device().record_event(state_.get(), queue.state()));
}

void CudaEvent::make_wait(const CudaQueue& queue) const {
  check(module_->device().wait_event(queue.state(), state_.get()));
}

bool CudaEvent::done() const {
  bool done = false;
  check(module_->device().query_event(state_.get(), &done));
  return done;
}

void CudaEvent::wait(const std::function<void()>& check) const {
  constexpr std::chrono::microseconds kPollInterval{20};
  while (!done()) {
    check();
    std::this_thread::sleep_for(kPollInterval);
  }
}

double CudaEvent::elapsed_ms(const CudaEvent& begin, const CudaEvent& end) {
  float ms = 0;
  check(begin.module_->device().elapsed_ms(begin.state_.get(), end.state_.get(), &ms));
  return ms;
}

CudaGraph::CudaGraph(const CudaQueue& queue, const std::function<void()>& work)
    : module_(&queue.module()) {
  check(module_->device().begin_capture(queue.state()));
  queue.graph_ = this;
  try {
    work();
    add_segment(queue);
  } catch (...) {
    queue.graph_ = nullptr;
    CudaGraphState* rest = nullptr;
    (void)module_->device().end_capture(queue.state(),
                                        &rest);  // fails if the capture itself has failed
    const Segment dropped(rest, module_->device().destroy_graph);
    throw;
  }
  queue.graph_ = nullptr;
}

void CudaGraph::prepare(const CudaQueue& queue) {
  for (const auto& part : parts_)
    if (const auto* const segment = std::get_if<Segment>(&part))
      check(module_->device().prepare_graph(segment->get(), queue.state()));
  ready_ = true;
}

void CudaGraph::launch(const CudaQueue& queue) const {
  for (const auto& part : parts_)
    if (const auto* const segment = std::get_if<Segment>(&part))
      check(module_->device().launch_graph(segment->get(), queue.state()));
    else
      std::get<std::function<void()>>(part)();
}

/// Adds what was captured since the last call, if there is any.
void CudaGraph::add_segment(const CudaQueue& queue) {
  CudaGraphState* state = nullptr;
  check(module_->device().end_capture(queue.state(), &state));
  if (state != nullptr) parts_.emplace_back(Segment(state, module_->device().destroy_graph));
}

void CudaGraph::cut(const CudaQueue& queue, const std::function<void()>& call) {
  add_segment(queue);
  parts_.emplace_back(call);
  check(module_->device().begin_capture(queue.state()));
}

}  // namespace hgt
