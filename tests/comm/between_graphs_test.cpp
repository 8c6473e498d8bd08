#include "hgtrain/comm/between_graphs.h"

#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"

using namespace hgt;

namespace {

/// Of a device that is asked for nothing but captures, which stay empty.
const CudaModule& module() {
  static const CudaDeviceTable device = [] {
    CudaDeviceTable out{};
    out.create_stream = [](int, CudaStreamState**) -> CudaResult { return nullptr; };
    out.destroy_stream = [](CudaStreamState*) -> CudaResult { return nullptr; };
    out.begin_capture = [](CudaStreamState*) -> CudaResult { return nullptr; };
    out.end_capture = [](CudaStreamState*, CudaGraphState** graph) -> CudaResult {
      *graph = nullptr;
      return nullptr;
    };
    return out;
  }();
  static const CudaTables tables{0, "fake", &device, nullptr, nullptr};
  static const CudaModule module(tables);
  return module;
}

}  // namespace

TEST_CASE("collectives of captured work are entered by each launch of its graph") {
  const CudaQueue queue(Device::cuda(0), module());
  const auto comm = run_between_graphs(make_self_communicator(), queue);
  std::vector<float> values{1, 2};
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));

  comm->all_reduce_sum(values);
  CHECK(comm->start_broadcast(bytes, 0) == 2);  // a ticket of the communicator's own

  std::optional<CudaGraph> graph;
  {
    const std::vector<OwnedRange> two{{{0, 2}, 0}}, eight{{{0, 8}, 0}};  // gone before a launch
    graph.emplace(queue, [&] {
      comm->all_reduce_sum(values);
      const std::uint64_t sum = comm->start_reduce_scatter_sum(values, two);
      comm->all_gather(bytes, eight);
      comm->wait(sum);
      comm->broadcast(bytes, 0);
      comm->barrier();
    });
  }
  CHECK(comm->sequence() == 2);
  for (std::uint64_t launch = 1; launch <= 2; ++launch) {
    graph->launch(queue);
    CHECK(comm->sequence() == 2 + 5 * launch);
    CHECK(comm->reduced_bytes() == 8 + 16 * launch);
    CHECK(comm->gathered_bytes() == 8 * launch);
  }
}

TEST_CASE("a launch throws what is wrong with its collectives") {
  const CudaQueue queue(Device::cuda(0), module());
  const auto comm = run_between_graphs(make_self_communicator(), queue);
  std::vector<float> values{1, 2};
  const CudaGraph graph(queue, [&] { comm->all_reduce_sum(values); });
  comm->abort();
  CHECK_THROWS_AS(graph.launch(queue), Error);
  CHECK_THROWS_AS(comm->check(), Error);
}
