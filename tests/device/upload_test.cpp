#include "hgtrain/device/upload.h"

#include <map>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/thread_pool.h"

#include "support/fake_cuda.h"

using namespace hgt;

namespace {

std::map<const void*, std::size_t> g_pinned;  ///< bytes
std::vector<std::size_t> g_copied;            ///< bytes

/// The fake device, whose streams copy behind the host's back; it notes what is copied.
CudaDeviceTable noting_table() {
  CudaDeviceTable table = fake_cuda::device_table();
  table.allocate_pinned = [](std::size_t bytes, void** out) -> CudaResult {
    g_pinned[*out = std::malloc(bytes)] = bytes;
    return nullptr;
  };
  table.copy = [](void* to, const void* from, std::size_t bytes, CudaStreamState* stream) {
    const auto pinned = g_pinned.upper_bound(from);
    CHECK(
        (pinned != g_pinned.begin() &&
         static_cast<const std::byte*>(from) + bytes <=
             static_cast<const std::byte*>(std::prev(pinned)->first) + std::prev(pinned)->second));
    g_copied.push_back(bytes);
    return fake_cuda::device_table().copy(to, from, bytes, stream);
  };
  return table;
}

std::vector<int> numbers(std::size_t count) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), 1);
  return out;
}

}  // namespace

TEST_CASE("memory is uploaded through page-locked chunks, each used again when it was copied") {
  const CudaDeviceTable device = noting_table();
  const CudaTables tables{0, "fake", &device, nullptr, nullptr};
  const CudaModule module(tables);
  const CudaQueue queue(Device::cuda(0), module);
  constexpr std::size_t kChunk = std::size_t{16} << 20;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{12}, 5 * kChunk + 4}) {
    g_pinned.clear();
    g_copied.clear();
    const std::vector<int> from = numbers(bytes / sizeof(int));
    std::vector<int> to(from.size());
    upload(to.data(), from.data(), bytes, queue);
    CHECK(to == from);
    CHECK(std::accumulate(g_copied.begin(), g_copied.end(), std::size_t{0}) == bytes);
    CHECK(g_pinned.size() <= 2);
    CHECK(g_copied.size() == (bytes + kChunk - 1) / kChunk);
  }
}

TEST_CASE("on the CPU, memory is copied") {
  ThreadPool pool(1);
  const std::vector<int> from = numbers(9);
  std::vector<int> to(9);
  upload(to.data(), from.data(), 9 * sizeof(int), pool);
  CHECK(to == from);
}

TEST_CASE("on the CPU a buffer is uploaded by being passed on") {
  ThreadPool pool(1);
  Buffer buffer("weights", 12);
  const void* const memory = buffer.data();
  const Buffer there = uploaded(std::move(buffer), pool);
  CHECK(there.data() == memory);
  CHECK(there.bytes() == 12);
}
