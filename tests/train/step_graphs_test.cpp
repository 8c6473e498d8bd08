#include "step_graphs.h"

#include <functional>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/ops/sample.h"

#include "emulated.h"

using namespace hgt;
using Catch::Contains;

namespace {

/// What the second run of a part of a step says, in which it is captured first.
std::string captured(const CudaQueue& queue, const std::function<void(int run)>& body) {
  StepGraphs graphs(Stream(queue), true);
  int runs = 0;
  try {
    for (int i = 0; i < 2; ++i) graphs.run({Action::Kind::kUpdate}, [&] { body(++runs); });
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("CUDA: a part of a step is launched as a graph once the graphs are prepared") {
  if (!has_emulation()) return;
  const CudaQueue queue(Device::cuda(0));
  const Buffer values("values", 1 << 10, queue.device());
  const Tensor x(values.data(), {1 << 8}, DType::kF32, queue.device());
  StepGraphs graphs(Stream(queue), true);
  int calls = 0;
  const auto run = [&] {
    graphs.run({Action::Kind::kUpdate}, [&] { ++calls, clear(x, queue); });
    return calls;
  };
  CHECK(run() == 1);
  graphs.prepare();
  CHECK_FALSE(graphs.has_new());
  CHECK(run() == 3);  // it is captured, and queued
  CHECK(graphs.has_new());
  CHECK(run() == 4);
  graphs.prepare();
  CHECK(run() == 4);
  graphs.forget();
  CHECK(run() == 5);
}

TEST_CASE(
    "CUDA: a part of a step that does in a capture what CUDA forbids there fails in the "
    "emulation") {
  if (!has_emulation()) return;
  const CudaQueue queue(Device::cuda(0)), other(Device::cuda(0));
  const CudaEvent event(queue);
  const Buffer values("values", 1 << 20, queue.device());
  const Tensor x(values.data(), {1 << 18}, DType::kF32, queue.device());
  CHECK(captured(queue, [&](int) { clear(x, queue); }) == "");
  CHECK_THAT(captured(queue, [&](int) { Buffer("more", 64, queue.device()); }),
             Contains("cudaMalloc: operation not permitted when stream is capturing"));
  CHECK_THAT(captured(queue, [&](int) { Buffer::pinned_for(queue.device(), "more", 64); }),
             Contains("cudaHostAlloc"));
  CHECK_THAT(captured(queue, [&](int) { (void)event.done(); }), Contains("cudaEventQuery"));
  CHECK_THAT(captured(queue, [&](int) { queue.synchronize(); }), Contains("cudaStreamSynchronize"));
  CHECK_THAT(captured(queue, [&](int) { other.synchronize(); }), Contains("cudaStreamSynchronize"));
  CHECK_THAT(captured(queue,
                      [&](int run) {
                        std::string failure;
                        std::thread([&] {
                          try {
                            queue.synchronize();
                          } catch (const Error& e) {
                            failure = e.message();
                          }
                        }).join();
                        CHECK(failure.empty() == (run == 1));
                        clear(x, queue);
                      }),
             Contains("previous error during capture"));
  CudaGraph graph(queue, [&] { clear(x, queue); });
  graph.prepare(queue);
  CHECK_THAT(captured(queue, [&](int) { graph.launch(queue); }), Contains("cudaGraphLaunch"));
  const Buffer token("token", 4, queue.device());
  CHECK_THAT(captured(queue,
                      [&](int run) {  // a kernel that was not loaded before
                        if (run == 2)
                          sample(x.slice(0, 0, 9), 1, 0, 1, 0,
                                 Tensor(token.data(), {1}, DType::kI32, queue.device()), queue);
                      }),
             Contains("loading a kernel, which is launched for the first time: operation not"));
  // A part that hears of the failure and goes on fails all the same.
  CHECK_THAT(captured(queue,
                      [&](int) {
                        try {
                          (void)event.done();
                        } catch (const Error&) {
                        }
                        clear(x, queue);
                      }),
             Contains("previous error during capture"));
  CHECK(captured(queue, [&](int) { clear(x, queue); }) == "");  // a failure ended each capture
  queue.synchronize();  // the other queue reads what this one has written
  const Buffer sum("sum", 8, queue.device());
  const Tensor out(sum.data(), {1}, DType::kF64, queue.device());
  // Its scratch follows from the size.
  CHECK_THAT(
      captured(other,
               [&](int run) { hgt::sum(x.slice(0, 0, run == 1 ? 8 : 1 << 18), out, other); }),
      Contains("cudaMalloc"));
  CHECK(captured(other, [&](int) { hgt::sum(x, out, other); }) == "");
}
