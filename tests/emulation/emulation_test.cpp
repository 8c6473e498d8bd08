#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_table.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "device_memory.h"
#include "order.h"
#include "sanitizer.h"

// What the emulation gives and what it notices, by kernels that are right and ones that are not.

using namespace hgt;

namespace {

/// Floats on the device, zeros at first.
struct Floats {
  explicit Floats(int size) : count(size), data(static_cast<float*>(emulation::allocate(bytes()))) {
    std::fill(data, data + count, 0.0f);
  }
  ~Floats() { emulation::release(data); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(float); }
  std::vector<float> values() const { return {data, data + count}; }
  int count;
  float* data;
};

struct Args {
  float* out;
  int choice;
};

void run(void (*kernel)(Args), dim3 grid, dim3 block, float* out, int choice = 0,
         std::size_t shared_bytes = 0) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, nullptr};
  (void)cudaLaunchKernelEx(&config, kernel, Args{out, choice});
}

/// What the launch fails with.
std::string failure(void (*kernel)(Args), dim3 block, int choice = 0,
                    std::size_t shared_bytes = 0) {
  Floats out(960);
  try {
    run(kernel, 1, block, out.data, choice, shared_bytes);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

using Catch::Matchers::Contains;

__global__ void count_places(Args args) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  atomicAdd(args.out + block * blockDim.x * blockDim.y * blockDim.z + thread, 1.0f);
}

enum Missing { kNothing, kBeforeRead, kBeforeOverwrite };

/// Twice: every thread sums what all threads have written.
__global__ void add_up(Args args) {
  __shared__ float values[256];
  float sum = 0;
  for (int round = 0; round < 2; ++round) {
    if (args.choice != kBeforeOverwrite) __syncthreads();
    values[threadIdx.x] = static_cast<float>(round + 1);
    if (args.choice != kBeforeRead) __syncthreads();
    for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
  }
  args.out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Each lane reads its neighbour's.
__global__ void pass_on(Args args) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (args.choice != kBeforeRead) __syncwarp();
  args.out[threadIdx.x] = static_cast<float>(values[(threadIdx.x + 1) % 32]);
}

__global__ void read_unwritten(Args args) {
  __shared__ float value;
  float* const dynamic = static_cast<float*>(emulation::dynamic_shared_memory());
  args.out[blockIdx.x] = value + *dynamic;
  value = *dynamic = 1;
}

__global__ void shuffle(Args args) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto give = [&](int row, int value) {
    args.out[row * 32 + lane] = static_cast<float>(value);
  };
  give(0, __shfl_sync(~0u, lane, 5));
  give(1, __shfl_sync(~0u, lane, 1, 8));
  give(2, __shfl_up_sync(~0u, lane, 2, 16));
  give(3, __shfl_down_sync(~0u, lane, 3));
  give(4, __shfl_xor_sync(~0u, lane, 4));
  if (lane < 7) give(5, __shfl_xor_sync(0x7fu, lane, 1, 2));
}

__global__ void vote(Args args) {
  const bool third = threadIdx.x % 3 == 0;
  const unsigned ballot = __ballot_sync(~0u, third);
  const int results[] = {__popc(ballot),
                         __ffs(static_cast<int>(ballot & ~1u)) - 1,
                         __any_sync(~0u, threadIdx.x == 40),
                         __all_sync(~0u, threadIdx.x < 32),
                         __syncthreads_count(third),
                         __syncthreads_or(threadIdx.x == 63),
                         __syncthreads_and(third)};
  for (int i = 0; i < 7; ++i) args.out[threadIdx.x / 32 * 7 + i] = static_cast<float>(results[i]);
}

enum Mistake { kTwoBarriers, kEndedLane, kForeignMask, kLaneThatIsNot, kEarlyEnd };

__global__ void wait_wrongly(Args args) {
  if (args.choice == kTwoBarriers) {
    if (threadIdx.x == 3)
      __syncthreads();
    else
      __syncthreads();
  }
  if (args.choice == kEndedLane && threadIdx.x > 0) (void)__shfl_sync(~0u, 1, 0);
  if (args.choice == kForeignMask) (void)__shfl_sync(2u, 1, 0);
  if (args.choice == kLaneThatIsNot) __syncwarp(0xffffu);
  if (args.choice == kEarlyEnd && threadIdx.x > 4) __syncthreads();
}

__global__ void touch(Args args) {
  args.out[args.choice] = args.out[args.choice] + 1;
}

__global__ void note_order(Args args) {
  args.out[blockIdx.x] = atomicAdd(args.out + gridDim.x, 1.0f);
}

}  // namespace

TEST_CASE("every thread of every block runs once") {
  Floats out(2 * 3 * 2 * 5 * 7 * 2);
  run(count_places, dim3(2, 3, 2), dim3(5, 7, 2), out.data);
  CHECK(out.values() == std::vector<float>(840, 1));
}

TEST_CASE("blocks run in no order") {
  Floats out(65);
  run(note_order, 64, 1, out.data);
  const auto order = out.values();
  CHECK(!std::is_sorted(order.begin(), order.end()));
  CHECK(std::set<float>(order.begin(), order.end()).size() == 65);
}

TEST_CASE("a missing barrier shows") {
  const std::vector<float> right(1024, 256 * 3);
  const auto sums = [](int missing) {
    Floats out(1024);
    run(add_up, 4, 256, out.data, missing);
    return out.values();
  };
  CHECK(sums(kNothing) == right);
  CHECK(sums(kBeforeRead) != right);
  CHECK(sums(kBeforeOverwrite) != right);

  const auto neighbours = [](int missing) {
    Floats out(32);
    run(pass_on, 1, 32, out.data, missing);
    return out.values();
  };
  CHECK(neighbours(kNothing)[30] == 31);
  CHECK(neighbours(kBeforeRead) != neighbours(kNothing));
}

TEST_CASE("shared memory is not a number at a block's start") {
  Floats out(3);
  run(read_unwritten, 3, 1, out.data, 0, sizeof(float));
  for (const float value : out.values()) CHECK(std::isnan(value));
}

TEST_CASE(
    "a shuffle gives each lane the value of the lane asked for, or its own outside its group") {
  Floats out(6 * 32);
  run(shuffle, 1, 32, out.data);
  const auto row = [&](int i) { return out.data + i * 32; };
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(row(0)[lane] == 5);
    CHECK(row(1)[lane] == static_cast<float>(lane / 8 * 8 + 1));
    CHECK(row(2)[lane] == static_cast<float>(lane % 16 < 2 ? lane : lane - 2));
    CHECK(row(3)[lane] == static_cast<float>(lane + 3 < 32 ? lane + 3 : lane));
    CHECK(row(4)[lane] == static_cast<float>(lane ^ 4));
    if (lane < 6) CHECK(row(5)[lane] == static_cast<float>(lane ^ 1));
  }
}

TEST_CASE("a vote counts the lanes of a warp, or the threads of a block") {
  Floats out(14);
  run(vote, 1, 64, out.data);
  CHECK(out.values() ==
        std::vector<float>{11, 3, 0, 1, 22, 1, 0, /* warp 1: */ 11, 1, 1, 0, 22, 1, 0});
}

TEST_CASE("threads that wait in vain or at different places end the launch") {
  CHECK_THAT(failure(wait_wrongly, 32, kTwoBarriers), Contains("waits at emulation_test.cpp"));
  CHECK_THAT(failure(wait_wrongly, 32, kEndedLane), Contains("31 threads wait for ever, 1 have"));
  CHECK_THAT(failure(wait_wrongly, 1, kForeignMask), Contains("without the lane that uses it"));
  CHECK_THAT(failure(wait_wrongly, 8, kLaneThatIsNot),
             Contains("names lanes beyond the 8 there are"));
  CHECK(failure(wait_wrongly, 32, kEarlyEnd).empty());  // those that have ended are not waited for
}

#ifndef HGT_ASAN  // which ends the program
TEST_CASE("a write outside of allocations ends the launch") {
  CHECK(failure(touch, 1, 959).empty());
  CHECK_THAT(failure(touch, 1, -1), Contains("outside of its operands"));
  Floats out(3);
  CHECK_THROWS_AS(run(touch, 1, 1, out.data, 3), Error);
}
#endif

TEST_CASE("a launch larger than a device allows fails") {
  Floats out(2048);
  CHECK_THAT(failure(touch, dim3(1025)), Contains("1025"));
  CHECK_THAT(failure(touch, dim3(1, 1, 65)), Contains("65"));
  CHECK_THROWS_AS(run(touch, dim3(1, 65536), 1, out.data), Error);
  CHECK_THAT(failure(touch, 1, 0, 50000), Contains("49152 are allowed"));
  CHECK(cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000) ==
        cudaSuccess);
  CHECK(failure(touch, 1, 0, 50000).empty());
}

TEST_CASE("16-bit floats are rounded to nearest even") {
  CHECK(__bfloat162float(__float2bfloat16_rn(1.00390625f)) == 1);
  CHECK(__bfloat16_as_ushort(__float2bfloat16_rn(-2)) == 0xc000);
  CHECK(__half2float(__float2half_rn(2049)) == 2048);
  CHECK(std::isinf(__half2float(__float2half_rn(1e6f))));
  const float2 pair = __half22float2(__floats2half2_rn(1.5f, -3));
  CHECK((pair.x == 1.5f && pair.y == -3));
}

namespace {

/// A stream of collectives with one under way, and a stream that waits for it.
struct Streams {
  Streams() {
    emulation::record(event, &collectives);
    emulation::wait(&compute, event);
  }
  ~Streams() { emulation::forget(values.data, 4); }
  /// What the next work of `compute` reads.
  float read() {
    float seen = 0;
    emulation::note(&compute, {{values.data, 4, false}});
    emulation::submit(&compute, [&] { seen = values.data[0]; });
    return seen;
  }
  Floats values{1};
  CUstream_st collectives{1001, {}}, compute{1002, {}};
  emulation::Event event{1001};
  const std::shared_ptr<emulation::Operation> operation =
      emulation::queue_operation(&collectives, {{values.data, 4, true}});
};

}  // namespace

TEST_CASE_METHOD(Streams, "work waits for the collective that its stream waits for") {
  CHECK_FALSE(emulation::are_over(event.pending));
  std::thread device([&] {
    values.data[0] = 5;
    operation->finish();
  });
  CHECK(read() == 5);
  CHECK(emulation::are_over(event.pending));
  device.join();
}

TEST_CASE_METHOD(Streams, "work that waits for a collective which fails throws, once") {
  operation->fail(Error(ErrorKind::kPeer, "a peer is gone"));
  CHECK_FALSE(emulation::are_over(event.pending));  // on a device it hangs
  CHECK_THROWS_AS(read(), Error);
  CHECK(read() == 0);
  operation->give_up();
  CHECK(emulation::are_over(event.pending));
}

TEST_CASE_METHOD(Streams, "a collective fails with what it waits for, and comes after it") {
  CUstream_st others{1003, {}};
  emulation::wait(&others, event);
  const auto next = emulation::queue_operation(&others, {{values.data, 4, true}});
  std::atomic<bool> finished = false;
  std::thread device([&] {
    finished = true;
    operation->finish();
  });
  next->wait_for_its_turn();
  CHECK(finished);
  device.join();
  next->finish();

  const auto first = emulation::queue_operation(&collectives, {});
  emulation::record(event, &collectives);
  emulation::wait(&others, event);
  const auto last = emulation::queue_operation(&others, {});
  first->fail(Error(ErrorKind::kPeer, "a peer is gone"));
  CHECK_THROWS_AS(last->wait_for_its_turn(), Error);
}

TEST_CASE("page-locked memory that is released is forgotten whole") {
  const CudaDeviceTable& device = *cuda_device_table();
  CUstream_st one{1004, {}}, other{1005, {}};
  void* memory = nullptr;
  REQUIRE(device.allocate_pinned(64, &memory) == nullptr);
  std::byte* const last = static_cast<std::byte*>(memory) + 60;
  emulation::note(&one, {{last, 4, true}});
  CHECK_THROWS_AS(emulation::note(&other, {{last, 4, true}}), Error);
  REQUIRE(device.release_pinned(memory) == nullptr);
  CHECK_NOTHROW(emulation::note(&other, {{last, 4, true}}));
  emulation::forget(last, 4);
}

TEST_CASE_METHOD(Streams, "memory is in use until the collective is over") {
  std::atomic<bool> finished = false;
  std::thread device([&] {
    finished = true;
    operation->give_up();
  });
  emulation::wait_for_uses(values.data, 4);
  CHECK(finished);
  device.join();
}
