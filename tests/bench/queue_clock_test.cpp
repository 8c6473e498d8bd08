#include "queue_clock.h"

#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"

#include "support/fake_cuda.h"

using namespace hgt;

namespace {

constexpr std::int64_t kWorkNs = 3'000'000;

/// Keeps the device busy without the caller's knowledge.
void work(const CudaQueue& queue) {
  queue.state()->add([] {
    for (const std::int64_t begin = now_ns(); now_ns() - begin < kWorkNs;)
      std::this_thread::yield();
  });
}

/// One op within another.
void two_ops(const CudaQueue& queue) {
  const Span phase = Span::phase("phase");
  const Span outer("outer");
  {
    const Span inner("inner");
    work(queue);
  }
  work(queue);
}

}  // namespace

TEST_CASE("ops of a queue last as long as the device takes, not as long as the host") {
  const CudaModule module = fake_cuda::module(nullptr, nullptr);
  const CudaQueue queue(Device::cuda(0), module);
  std::vector<SpanRecord> ops;
  std::thread([&] {
    name_thread("queueing");
    forget_spans();
    record_spans(Recording::kAll);
    {
      QueueClock clock(queue);
      for (int round = 0; round < 2; ++round) {  // the second with the events of the first
        two_ops(queue);
        clock.resolve_durations();
      }
    }
    { const Span after("after"); }
    record_spans(Recording::kOff);
    for (const ThreadSpans& thread : recorded_spans())
      if (thread.name == std::string_view("queueing")) ops = thread.spans;
  }).join();

  const auto ns = [&](std::size_t i) { return ops.at(i).end_ns - ops.at(i).begin_ns; };
  REQUIRE(ops.size() == 7);
  for (const std::size_t outer : {1, 4}) {
    CHECK(ns(outer + 1) >= kWorkNs);
    CHECK(ns(outer) >= ns(outer + 1) + kWorkNs);
  }
  CHECK(ns(6) >= 0);
}
