#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/comm/connect.h"
#include "hgtrain/device/cuda_queue.h"

#include "support/fake_cuda.h"
#include "support/ranks.h"

using namespace hgt;

namespace {

const CudaModule& fake_module() {
  static const CudaModule module = fake_cuda::module(nullptr, nullptr);
  return module;
}

/// Runs `body` as each of three ranks over TCP, each with a GPU of its own.
void run_ranks(const std::function<void(Communicator&, CudaQueue&)>& body) {
  MemoryChannel channel;
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      try {
        CudaQueue compute(Device::cuda(rank), fake_module());
        const auto comm = connect_tcp(channel, {.rank = rank, .size = 3}, "127.0.0.1", &compute);
        body(*comm, compute);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(rank)] = e.render();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == std::vector<std::string>(3));
}

bool all_are(std::span<const float> values, float value) {
  return std::ranges::all_of(values, [=](float v) { return v == value; });
}

}  // namespace

TEST_CASE("TCP sums a GPU's memory in pieces, after the work that its queue had") {
  constexpr std::size_t kCount = 5'000'000;  // more than two pieces
  std::vector<char> right(3);
  run_ranks([&](Communicator& comm, CudaQueue& compute) {
    const std::vector<float> filled(kCount, static_cast<float>(comm.rank() + 1));
    const fake_cuda::DeviceFloats sums(kCount);
    compute.copy(sums.values.data(), filled.data(), sums.values.size_bytes());
    comm.wait(comm.start_all_reduce_sum(sums.values));
    right[static_cast<std::size_t>(comm.rank())] = all_are(sums.values, 6);
  });
  CHECK(right == std::vector<char>(3, 1));
}

TEST_CASE("TCP broadcasts a GPU's memory, and sums host memory as well") {
  std::vector<char> right(3);
  run_ranks([&](Communicator& comm, CudaQueue& compute) {
    const std::vector<float> filled(100, static_cast<float>(comm.rank()));
    const fake_cuda::DeviceFloats weights(100);
    compute.copy(weights.values.data(), filled.data(), weights.values.size_bytes());
    comm.broadcast(std::as_writable_bytes(weights.values), 2);
    std::vector<double> host = {1, 2};
    comm.all_reduce_sum(std::span(host));
    comm.barrier();
    right[static_cast<std::size_t>(comm.rank())] =
        all_are(weights.values, 2) && host == std::vector<double>{3, 6};
  });
  CHECK(right == std::vector<char>(3, 1));
}

TEST_CASE("TCP sums parts of a GPU's memory, and gives them to all") {
  constexpr std::int64_t kCount = 3'000'001;  // more than a piece
  const std::vector<OwnedRange> parts{{{0, 10}, 2}, {{10, 2'900'000}, 0}, {{2'900'000, kCount}, 2}};
  std::vector<char> right(3);
  run_ranks([&](Communicator& comm, CudaQueue& compute) {
    const std::vector<float> filled(kCount, static_cast<float>(comm.rank() + 1));
    const fake_cuda::DeviceFloats values(kCount);
    compute.copy(values.values.data(), filled.data(), values.values.size_bytes());
    comm.reduce_scatter_sum(values.values, parts);
    bool own = true;
    for (const auto& [range, rank] : parts)
      if (rank == comm.rank()) own &= all_are(values.values.subspan(range.begin, range.size()), 6);
    std::vector<OwnedRange> bytes = parts;
    for (OwnedRange& part : bytes) part.elements = {part.elements.begin * 4, part.elements.end * 4};
    comm.all_gather(std::as_writable_bytes(values.values), bytes);
    right[static_cast<std::size_t>(comm.rank())] = own && all_are(values.values, 6);
  });
  CHECK(right == std::vector<char>(3, 1));
}
