#include "host_copies.h"

#include <catch2/catch.hpp>

#include "hgtrain/comm/connect.h"
#include "hgtrain/ops/flat.h"

#include "emulated.h"

using namespace hgt;

TEST_CASE("CUDA: a wait of the host asks until the device has passed the point") {
  if (!has_emulation()) return;
  const CudaQueue queue(Device::cuda(0));
  const Buffer values("values", 64, queue.device());
  CudaEvent event(queue);
  CHECK(event.done());  // it was never recorded
  const auto clear_and_record = [&] {
    clear(Tensor(values.data(), {16}, DType::kF32, queue.device()), queue);
    event.record(queue);
  };
  clear_and_record();
  CHECK_FALSE(event.done());
  CHECK(event.done());
  clear_and_record();
  const auto comm = make_self_communicator();
  wait_on_host(event, *comm);
  CHECK(event.done());
  clear_and_record();
  queue.synchronize();  // then the host knows
  CHECK(event.done());
}

TEST_CASE("CUDA: a device has no times of what the host has not waited for") {
  if (!has_emulation()) return;
  const CudaQueue queue(Device::cuda(0));
  CudaEvent begin(queue), end(queue);
  begin.record(queue);
  end.record(queue);
  CHECK_THROWS_WITH(CudaEvent::elapsed_ms(begin, end), Catch::Contains("device not ready"));
  queue.synchronize();
  CHECK(CudaEvent::elapsed_ms(begin, end) == 0);
}
