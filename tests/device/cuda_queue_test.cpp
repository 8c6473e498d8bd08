#include "hgtrain/device/cuda_queue.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

std::vector<std::string> g_calls;

CudaResult called(const char* what) {
  g_calls.push_back(what);
  return nullptr;
}

/// A device that records its calls.
const CudaTables& fake_tables() {
  static const CudaDeviceTable device = [] {
    CudaDeviceTable out{};
    out.create_stream = [](int, CudaStreamState**) { return called("stream"); };
    out.destroy_stream = [](CudaStreamState*) { return called("end of stream"); };
    out.properties = [](int device, CudaDeviceProperties* out) {
      *out = {};
      out->major = device;
      return called("properties");
    };
    out.memory_info = [](int, std::uint64_t* free, std::uint64_t* total) {
      *free = 3;
      *total = 5;
      return called("memory");
    };
    out.copy = [](void*, const void*, std::size_t, CudaStreamState*) { return called("copy"); };
    out.begin_capture = [](CudaStreamState*) { return called("begin"); };
    out.end_capture = [](CudaStreamState*, CudaGraphState** graph) {
      *graph = g_calls.back() == "begin" ? nullptr : reinterpret_cast<CudaGraphState*>(8);
      return called("end");
    };
    out.prepare_graph = [](CudaGraphState*, CudaStreamState*) { return called("prepare"); };
    out.launch_graph = [](CudaGraphState*, CudaStreamState*) { return called("launch"); };
    out.destroy_graph = [](CudaGraphState*) { return called("end of graph"); };
    return out;
  }();
  static const CudaTables tables{0, "fake", &device, nullptr, nullptr};
  return tables;
}

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("a graph contains the captured work, and can be launched again") {
  const CudaModule module(fake_tables());
  const CudaQueue queue(Device::cuda(0), module);
  g_calls.clear();
  {
    CudaGraph graph(queue, [&] { queue.copy(nullptr, nullptr, 1); });
    CHECK_FALSE(graph.is_ready());
    graph.prepare(queue);
    CHECK(graph.is_ready());
    graph.launch(queue);
    graph.launch(queue);
  }
  CHECK(g_calls == Calls{"begin", "copy", "end", "prepare", "launch", "launch", "end of graph"});
}

TEST_CASE("calls cut a graph: each launch makes them between the segments of captured work") {
  const CudaModule module(fake_tables());
  const CudaQueue queue(Device::cuda(0), module);
  const auto copy = [&] { queue.copy(nullptr, nullptr, 1); };
  const auto call = [&] {
    queue.run_between_graphs([&] { called(queue.is_captured() ? "!" : "call"); });
  };
  call();
  CHECK(g_calls.back() == "call");
  g_calls.clear();
  {
    CudaGraph graph(queue, [&] {
      CHECK(queue.is_captured());
      call(), copy(), call(), call(), copy();
    });
    CHECK(g_calls ==
          Calls{"begin", "end", "begin", "copy", "end", "begin", "end", "begin", "copy", "end"});
    CHECK_FALSE(queue.is_captured());
    g_calls.clear();
    graph.prepare(queue);
    CHECK(g_calls == Calls{"prepare", "prepare"});
    for (int launch = 0; launch < 2; ++launch) {
      g_calls.clear();
      graph.launch(queue);
      CHECK(g_calls == Calls{"call", "launch", "call", "call", "launch"});
    }
    g_calls.clear();
  }
  CHECK(g_calls == Calls{"end of graph", "end of graph"});
}

TEST_CASE("work that fails ends its capture, and the queue runs what it gets afterwards") {
  const CudaModule module(fake_tables());
  const CudaQueue queue(Device::cuda(0), module);
  g_calls.clear();
  const auto fail = [&] {
    queue.copy(nullptr, nullptr, 1);
    throw Error(ErrorKind::kDevice, "no");
  };
  CHECK_THROWS_WITH(CudaGraph(queue, fail), Catch::Contains("no"));
  CHECK(g_calls == Calls{"begin", "copy", "end", "end of graph"});
  queue.run_between_graphs([] { called("call"); });
  CHECK(g_calls.back() == "call");
}

TEST_CASE("a device's properties and memory are what the module says") {
  const CudaModule module(fake_tables());
  const CudaQueue queue(Device::cuda(7), module);
  CHECK(queue.properties().major == 7);
  CHECK(queue.memory().free_bytes == 3);
  CHECK(queue.memory().total_bytes == 5);
}
