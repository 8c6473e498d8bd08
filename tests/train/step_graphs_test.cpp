#include "step_graphs.h"

#include <cstring>
#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/flat.h"

using namespace hgt;
using Catch::Contains;

namespace {

bool has_emulation() {
  try {
    return std::strstr(CudaModule::get().tables().build, "emulation") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

/// What a piece's second run says, in which it is captured.
std::string captured(const CudaQueue& queue, const std::function<void(int run)>& piece) {
  StepGraphs graphs(Stream(queue), true);
  int runs = 0;
  try {
    for (int i = 0; i < 2; ++i) graphs.run({Action::Kind::kUpdate}, [&] { piece(++runs); });
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("CUDA: a piece that does in a capture what CUDA forbids there fails in the emulation") {
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
