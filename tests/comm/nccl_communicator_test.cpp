#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/cuda_queue.h"

#include "contract.h"
#include "support/fake_nccl.h"

using namespace hgt;

namespace {

using Catch::Contains;

const CudaModule& fake_nccl_module() {
  static const CudaModule module = fake_cuda::module(nullptr, &fake_cuda::comm_table());
  return module;
}

/// Runs `body` as each of `size` ranks, each with its own queue. Returns their error messages.
std::vector<std::string> run_nccl_ranks(
    int size, int joining, const std::function<void(Communicator&, CudaQueue&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  MemoryChannel channel;
  std::vector<std::string> errors(static_cast<std::size_t>(joining));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < joining; ++rank)
    threads.emplace_back([&, rank] {
      try {
        CudaQueue compute(Device::cuda(rank), fake_nccl_module());
        const auto comm =
            connect_nccl(channel, compute, {.rank = rank, .size = size, .timeout = timeout});
        body(*comm, compute);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(rank)] = e.render();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// What a rank splits off to be in a group of these ranks.
GroupOptions group_of(const std::vector<int>& members, int rank) {
  return {.rank = static_cast<int>(std::ranges::find(members, rank) - members.begin()),
          .size = static_cast<int>(members.size()),
          .members = members,
          .timeout = std::chrono::seconds(60)};
}

const CudaModule* module_with_device() {
  try {
    return &CudaModule::get();
  } catch (const Error&) {
    return nullptr;
  }
}

bool emulated(const CudaModule& module) {
  return std::strstr(module.tables().build, "emulation") != nullptr;
}

/// Runs `body` as each of two or more ranks over the module's own NCCL: the emulation's
/// (tests/emulation), or the real one on a machine with so many devices. Returns their error
/// messages.
std::vector<std::string> run_on_devices(const CudaModule& module,
                                        const std::function<void(Communicator&, CudaQueue&)>& body,
                                        int ranks = 2, bool rounds_once = false) {
  MemoryChannel channel;
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        CudaQueue compute(Device::cuda(emulated(module) ? 0 : rank), module);
        const auto comm = connect_nccl(channel, compute,
                                       {.rank = rank,
                                        .size = ranks,
                                        .timeout = std::chrono::seconds(60),
                                        .rounds_once = rounds_once});
        body(*comm, compute);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(rank)] = e.render();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// The module, if it has the devices for two ranks.
const CudaModule* module_for_two() {
  const CudaModule* const module = module_with_device();
  return module && (emulated(*module) || module->probe().device_count >= 2) ? module : nullptr;
}

}  // namespace

TEST_CASE("NCCL: sums, broadcasts and barriers of host memory are staged through the device") {
  const auto errors = run_nccl_ranks(3, 3, [](Communicator& comm, CudaQueue&) {
    std::vector<float> floats(1000, static_cast<float>(comm.rank() + 1));
    const std::uint64_t ticket = comm.start_all_reduce_sum(floats);
    std::vector<double> doubles(2, 0.5 * comm.rank());
    comm.all_reduce_sum(doubles);
    comm.wait(ticket);
    std::vector<std::byte> bytes(5, static_cast<std::byte>(comm.rank()));
    comm.broadcast(bytes, 2);
    comm.all_reduce_sum(std::span<float>());
    comm.barrier();
    if (floats != std::vector<float>(1000, 6) || doubles != std::vector<double>(2, 1.5) ||
        bytes != std::vector<std::byte>(5, std::byte{2}))
      throw Error(ErrorKind::kInternal, "wrong results");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("NCCL: a sum in device memory runs after the work that the compute queue had before") {
  const auto errors = run_nccl_ranks(2, 2, [](Communicator& comm, CudaQueue& compute) {
    const fake_cuda::DeviceFloats device(4);
    const std::vector<float> ones(4, 1);
    for (int round = 0; round < 50; ++round) {
      // Late on purpose: the fill waits until the sum has been started.
      std::mutex held;
      held.lock();
      compute.state()->add([&] { const std::lock_guard wait(held); });
      compute.copy(device.values.data(), ones.data(), 4 * sizeof(float));
      comm.wait(comm.start_all_reduce_sum(device.values));  // the host does not wait
      held.unlock();
      compute.synchronize();
      if (std::count(device.values.begin(), device.values.end(), 2.0f) != 4)
        throw Error(ErrorKind::kInternal, "summed too early");
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("NCCL: reduce-scatters and all-gathers of parts, in device memory and in host memory") {
  for (const std::vector<OwnedRange>& parts :
       {std::vector<OwnedRange>{{{0, 4}, 0}, {{4, 8}, 1}, {{8, 12}, 2}},
        std::vector<OwnedRange>{{{0, 1}, 2}, {{1, 6}, 0}, {{6, 12}, 2}}}) {
    const auto errors = run_nccl_ranks(3, 3, [&](Communicator& comm, CudaQueue& compute) {
      const fake_cuda::DeviceFloats device(12);
      std::vector<float> host(12), result(12);
      for (const std::span<float> values : {device.values, std::span<float>(host)}) {
        for (std::size_t i = 0; i < 12; ++i)
          result[i] = static_cast<float>(i) + static_cast<float>(comm.rank());
        compute.copy(values.data(), result.data(), values.size_bytes());
        if (values.data() == host.data()) compute.synchronize();
        comm.wait(comm.start_reduce_scatter_sum(values, parts));
        std::vector<OwnedRange> bytes = parts;
        for (OwnedRange& part : bytes)
          part.elements = {part.elements.begin * 4, part.elements.end * 4};
        comm.wait(comm.start_all_gather(std::as_writable_bytes(values), bytes));
        compute.copy(result.data(), values.data(), values.size_bytes());
        compute.synchronize();
        for (std::size_t i = 0; i < 12; ++i)
          if (result[i] != static_cast<float>(3 * i + 3))
            throw Error(ErrorKind::kInternal, "wrong result");
      }
      comm.reduce_scatter_sum(std::span<float>(), {});
      if (comm.reduced_bytes() != 2 * 48 || comm.gathered_bytes() != 2 * 48)
        throw Error(ErrorKind::kInternal, "wrong byte count");
    });
    CHECK(errors == std::vector<std::string>(3));
  }
}

TEST_CASE("NCCL: compute waits for the collective of the ticket, and for no later one") {
  std::promise<void> read;
  const auto errors = run_nccl_ranks(2, 2, [&](Communicator& comm, CudaQueue& compute) {
    const fake_cuda::DeviceFloats first(4), second(4);
    const std::vector<float> ones(4, 1);
    std::vector<float> result(4);
    compute.copy(first.values.data(), ones.data(), 4 * sizeof(float));
    const std::vector<OwnedRange> parts{{{0, 4}, 0}};
    const std::uint64_t ticket = comm.start_reduce_scatter_sum(first.values, parts);
    if (comm.rank() == 1) read.get_future().wait();  // until then the second one cannot end
    const std::uint64_t later = comm.start_all_reduce_sum(second.values);
    comm.wait(ticket);
    compute.copy(result.data(), first.values.data(), 4 * sizeof(float));
    compute.synchronize();
    if (comm.rank() == 0) {
      read.set_value();
      if (result != std::vector<float>(4, 2)) throw Error(ErrorKind::kInternal, "wrong sum");
    }
    comm.wait(later);
    compute.synchronize();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("NCCL: ranks that make different calls in device memory get an error") {
  const auto errors = run_nccl_ranks(2, 2, [](Communicator& comm, CudaQueue&) {
    const fake_cuda::DeviceFloats device(4);
    const std::vector<OwnedRange> parts{{{0, 4}, 0}};
    if (comm.rank() == 0)
      comm.reduce_scatter_sum(device.values, parts);
    else
      comm.all_reduce_sum(device.values);
    while (true) {
      comm.check();
      std::this_thread::yield();
    }
  });
  CHECK_THAT(errors[0] + errors[1], Contains("NCCL: ranks make different calls"));
}

TEST_CASE("NCCL: ranks that disagree about a collective get an error that names both") {
  const auto errors = run_nccl_ranks(2, 2, [](Communicator& comm, CudaQueue&) {
    std::vector<float> values(comm.rank() == 0 ? 10 : 11);
    comm.all_reduce_sum(values);
  });
  // The slower one may find the other one lost before it can compare.
  CHECK_THAT(errors[0] + errors[1], Contains("sum of 10 fp32") && Contains("sum of 11 fp32"));
  for (const std::string& error : errors) CHECK_THAT(error, Contains("in collective 1"));
}

TEST_CASE("NCCL: a rank that does not come to a collective is an error after the timeout") {
  fake_cuda::g_absent = 1;
  const auto errors = run_nccl_ranks(
      2, 1, [](Communicator& comm, CudaQueue&) { comm.barrier(); }, std::chrono::milliseconds(50));
  fake_cuda::g_absent = 0;
  CHECK_THAT(errors[0],
             Contains("did not arrive within 0.05 s") && Contains("collective 1 (barrier)"));
}

TEST_CASE("NCCL: the watcher finds a rank that does not come to a sum in device memory") {
  fake_cuda::g_absent = 1;
  const auto errors = run_nccl_ranks(
      2, 1,
      [](Communicator& comm, CudaQueue&) {
        const fake_cuda::DeviceFloats device(4);
        comm.wait(comm.start_all_reduce_sum(device.values));
        while (true) {
          comm.check();
          std::this_thread::yield();
        }
      },
      std::chrono::milliseconds(50));
  fake_cuda::g_absent = 0;
  CHECK_THAT(errors[0],
             Contains("did not arrive within 0.05 s") && Contains("collective 1 (sum of 4 fp32)"));
}

TEST_CASE("NCCL: a rank that never connects is an error after the timeout") {
  const auto errors = run_nccl_ranks(
      2, 1, [](Communicator&, CudaQueue&) {}, std::chrono::milliseconds(50));
  CHECK_THAT(errors[0],
             Contains("did not arrive within 0.05 s") && Contains("connecting over NCCL"));
}

TEST_CASE("NCCL: a split gives groups of their own, which outlive the failure of the first one") {
  std::barrier split(4);
  const auto errors = run_nccl_ranks(4, 4, [&](Communicator& world, CudaQueue&) {
    const int rank = world.rank();
    // Ranks 3 and 1, in this order, then 0 and 2; then 1 and 2, with the others outside.
    GroupOptions pair = group_of({rank % 2 == 0 ? 0 : 3, rank % 2 == 0 ? 2 : 1}, rank);
    const auto first = split_nccl(world, pair);
    const auto second = split_nccl(
        world, rank == 1 || rank == 2 ? group_of({1, 2}, rank) : GroupOptions{.size = 0});
    if ((second == nullptr) != (rank == 0 || rank == 3))
      throw Error(ErrorKind::kInternal, "the wrong ranks are outside");
    split.arrive_and_wait();
    if (rank == 0) world.abort();
    std::vector<float> values{static_cast<float>(rank)};
    first->all_reduce_sum(values);
    if (values[0] != (rank % 2 == 0 ? 2 : 4)) throw Error(ErrorKind::kInternal, "a wrong sum");
    values[0] = static_cast<float>(first->rank() * 10 + rank);
    first->broadcast(std::as_writable_bytes(std::span(values)), 0);
    if (values[0] != static_cast<float>(pair.members[0]))
      throw Error(ErrorKind::kInternal, "the members are in another order");
    if (!second) return;
    values[0] = static_cast<float>(rank);
    second->all_reduce_sum(values);
    if (values[0] != 3) throw Error(ErrorKind::kInternal, "a wrong sum of the second split");
  });
  CHECK(errors == std::vector<std::string>(4));
}

TEST_CASE("NCCL: a rank that does not come to a split is an error after the timeout") {
  const auto errors = run_nccl_ranks(2, 2, [](Communicator& world, CudaQueue&) {
    if (world.rank() == 1) return;
    GroupOptions options = group_of({0, 1}, 0);
    options.timeout = std::chrono::milliseconds(50);
    (void)split_nccl(world, options);
  });
  CHECK_THAT(errors[0],
             Contains("did not arrive within 0.05 s") && Contains("connecting over NCCL"));
}

TEST_CASE("NCCL: abort wakes a rank that waits, and its peers get an error from NCCL") {
  const auto errors = run_nccl_ranks(2, 2, [](Communicator& comm, CudaQueue&) {
    if (comm.rank() == 1) return comm.abort();
    comm.barrier();
  });
  CHECK_THAT(errors[0], Contains("NCCL: a rank has gone"));
}

TEST_CASE("CUDA: reduce-scatters and all-gathers over NCCL take parts of any size") {
  const CudaModule* const module = module_for_two();
  if (module == nullptr) return;
  constexpr std::int64_t kCount = 10'000;
  for (const std::vector<OwnedRange>& parts : layouts(kCount, 2)) {
    const auto errors = run_on_devices(*module, [&](Communicator& comm, CudaQueue& compute) {
      const Buffer memory("collective", kCount * 4, compute.device());
      const std::span<float> values = memory.as<float>();
      std::vector<float> host(kCount);
      for (std::size_t i = 0; i < host.size(); ++i)
        host[i] = static_cast<float>(i) + static_cast<float>(comm.rank());
      compute.copy(values.data(), host.data(), values.size_bytes());
      comm.reduce_scatter_sum(values, parts);
      comm.all_gather(std::as_writable_bytes(values), in_bytes(parts, 4));
      compute.copy(host.data(), values.data(), values.size_bytes());
      compute.synchronize();
      for (std::size_t i = 0; i < host.size(); ++i)
        if (host[i] != static_cast<float>(2 * i + 1))
          throw Error(ErrorKind::kInternal, "wrong result");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

TEST_CASE("CUDA: 16-bit sums over NCCL that are rounded once have the bits of the CPU's") {
  const CudaModule* const module = module_for_two();
  if (module == nullptr) return;
  const int ranks = emulated(*module) || module->probe().device_count > 2 ? 3 : 2;
  constexpr std::int64_t kCount = 10'007;
  std::vector<std::vector<OwnedRange>> all_parts = layouts(kCount, ranks);
  all_parts.push_back({});  // stands for an all-reduce
  for (const DType type : {DType::kBF16, DType::kF16})
    for (const std::vector<OwnedRange>& parts : all_parts) {
      const auto reduce = [&](Communicator& comm, const Tensor& values) {
        parts.empty() ? comm.all_reduce_sum(values) : comm.reduce_scatter_sum(values, parts);
      };
      const auto values_of = [&](int rank) {
        std::vector<std::byte> bytes(kCount * 2);
        const std::vector<float> values = awkward(rank, kCount);
        visit_element(type, [&]<class T>(T) {
          for (std::size_t i = 0; i < values.size(); ++i)
            reinterpret_cast<T*>(bytes.data())[i] = values[i] * 1e-3f;
        });
        return bytes;
      };
      std::vector<std::vector<std::byte>> expected(static_cast<std::size_t>(ranks));
      const auto on_cpu = run_ranks(over_shared_memory, ranks, [&](Communicator& comm) {
        std::vector<std::byte> host = values_of(comm.rank());
        reduce(comm, Tensor(host.data(), {kCount}, type));
        expected[static_cast<std::size_t>(comm.rank())] = std::move(host);
      });
      CHECK(on_cpu == std::vector<std::string>(static_cast<std::size_t>(ranks)));
      const auto errors = run_on_devices(
          *module,
          [&](Communicator& comm, CudaQueue& compute) {
            const Buffer memory("collective", kCount * 2, compute.device());
            const Tensor values(memory.data(), {kCount}, type, compute.device());
            std::vector<std::byte> host = values_of(comm.rank());
            compute.copy(values.raw(), host.data(), values.bytes());
            reduce(comm, values);
            compute.copy(host.data(), values.raw(), values.bytes());
            compute.synchronize();
            const auto& right = expected[static_cast<std::size_t>(comm.rank())];
            const auto check = [&](const Range& range) {
              if (std::memcmp(host.data() + range.begin * 2, right.data() + range.begin * 2,
                              static_cast<std::size_t>(range.size()) * 2) != 0)
                throw Error(ErrorKind::kInternal, "wrong result");
            };
            if (parts.empty()) check({0, kCount});
            for (const auto& [range, rank] : parts)
              if (rank == comm.rank()) check(range);
          },
          ranks, true);
      CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    }
}

TEST_CASE("CUDA: the emulation's NCCL notices calls that differ, and spoils what is undefined") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  const std::vector<OwnedRange> parts{{{0, 3}, 0}, {{3, 4}, 1}};
  const auto errors = run_on_devices(*module, [&](Communicator& comm, CudaQueue& compute) {
    const Buffer memory("collective", 16, compute.device());
    const std::span<float> values = memory.as<float>();
    std::vector<float> host(4, 1);
    compute.copy(values.data(), host.data(), 16);
    comm.reduce_scatter_sum(values, parts);
    compute.copy(host.data(), values.data(), 16);
    compute.synchronize();
    for (std::size_t i = 0; i < 4; ++i)
      if ((i < 3) == (comm.rank() == 0) ? host[i] != 2 : !std::isnan(host[i]))
        throw Error(ErrorKind::kInternal, "wrong result");
    if (comm.rank() == 0)
      comm.reduce_scatter_sum(values, parts);
    else
      comm.all_reduce_sum(values);
    while (true) {
      comm.check();
      std::this_thread::yield();
    }
  });
  CHECK_THAT(errors[0], Catch::Contains("rank 1 is at call 2 (sum of 16 bytes"));
  CHECK_THAT(errors[0], Catch::Contains("rank 0 at call 2 (reduce-scatter of 16 bytes"));
  CHECK_FALSE(errors[1].empty());
}

namespace {

/// Floats of a device.
struct Values {
  Values(CudaQueue& queue, std::size_t count, float value)
      : memory("values", static_cast<std::int64_t>(count) * 4, queue.device()), compute(queue) {
    set(value);
  }
  std::span<float> span() const { return memory.as<float>(); }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(span()); }
  void set(float value) const {
    const std::vector<float> host(span().size(), value);
    compute.copy(span().data(), host.data(), span().size_bytes());
    compute.synchronize();
  }
  std::vector<float> get() const {
    std::vector<float> host(span().size());
    compute.copy(host.data(), span().data(), span().size_bytes());
    compute.synchronize();
    return host;
  }
  Buffer memory;
  CudaQueue& compute;
};

void require(bool right, const char* what) {
  if (!right) throw Error(ErrorKind::kInternal, what);
}

}  // namespace

TEST_CASE("CUDA: a receive over NCCL may be entered long before its sender sends") {
  const CudaModule* const module = module_for_two();
  if (module == nullptr) return;
  const auto errors = run_on_devices(*module, [](Communicator& world, CudaQueue& compute) {
    const int rank = world.rank();
    const auto there = split_nccl(world, group_of({0, 1}, rank));
    const auto back = split_nccl(world, group_of({1, 0}, rank));
    const auto round = split_nccl(world, group_of({1, 0}, rank));
    const Values first(compute, 8, static_cast<float>(rank)), answer(compute, 8, 5),
        later(compute, 8, static_cast<float>(rank));
    if (rank == 0) {
      const auto received = back->start_broadcast(answer.bytes(), 0);
      const auto last = round->start_broadcast(later.bytes(), 0);
      first.set(7);  // this rank continues meanwhile
      (void)there->start_broadcast(first.bytes(), 0);
      back->wait(received);
      require(answer.get() == std::vector<float>(8, 8), "a wrong answer");
      round->wait(last);
      require(later.get() == std::vector<float>(8, 1), "a wrong last message");
    } else {
      there->wait(there->start_broadcast(first.bytes(), 0));
      answer.set(first.get()[0] + 1);
      back->wait(back->start_broadcast(answer.bytes(), 0));
      round->wait(round->start_broadcast(later.bytes(), 0));
      compute.synchronize();
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("CUDA: a collective over NCCL reads its memory when all ranks have come to it") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  std::promise<void> changed;
  const auto errors = run_on_devices(*module, [&](Communicator& world, CudaQueue& compute) {
    const Values values(compute, 4, 1);
    if (world.rank() == 1) changed.get_future().wait();
    const std::uint64_t ticket = world.start_all_reduce_sum(values.span());
    if (world.rank() == 0) {
      std::ranges::fill(values.span(), 3.0f);  // behind the back of the order check
      changed.set_value();
    }
    world.wait(ticket);
    require(values.get() == std::vector<float>(4, 4), "the memory was read when it was queued");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("CUDA: the emulation notices work that does not wait for a collective under way") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  std::promise<void> noticed;
  const auto errors = run_on_devices(*module, [&](Communicator& world, CudaQueue& compute) {
    const Values values(compute, 4, 1);
    if (world.rank() == 1) noticed.get_future().wait();
    const std::uint64_t ticket = world.start_all_reduce_sum(values.span());
    if (world.rank() == 0) {
      std::string error;
      try {
        values.set(2);
      } catch (const Error& e) {
        error = e.message();
      }
      noticed.set_value();
      require(error.ends_with("waits for nothing"), "it was not noticed");
    }
    world.wait(ticket);
    require(values.get() == std::vector<float>(4, 2), "a wrong sum");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("CUDA: the emulation notices ranks that enter collectives in different orders") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  const auto errors = run_on_devices(*module, [](Communicator& world, CudaQueue& compute) {
    const auto group = split_nccl(world, group_of({0, 1}, world.rank()));
    const Values one(compute, 4, 1), other(compute, 4, 1);
    Communicator& first = world.rank() == 0 ? world : *group;
    Communicator& second = world.rank() == 0 ? *group : world;
    first.wait(first.start_all_reduce_sum(one.span()));
    second.wait(second.start_all_reduce_sum(other.span()));
    compute.synchronize();
    while (true) {
      world.check();
      group->check();
      std::this_thread::yield();
    }
  });
  CHECK_THAT(errors[0], Contains("collectives of two groups in different orders"));
  CHECK_FALSE(errors[1].empty());
}

TEST_CASE("CUDA: the emulation notices ranks that disagree about a split") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  const auto errors = run_on_devices(*module, [](Communicator& world, CudaQueue&) {
    (void)split_nccl(world, world.rank() == 0 ? group_of({0, 1}, 0) : group_of({0, 1, 2}, 1));
  });
  CHECK_THAT(errors[0], Contains("the ranks of color 0 of a split are 0 1, but one expects 3"));
}

TEST_CASE("CUDA: aborting the emulation's NCCL wakes threads that wait for its collectives") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr || !emulated(*module)) return;
  const auto errors = run_on_devices(*module, [](Communicator& world, CudaQueue& compute) {
    const Values values(compute, 4, 1);
    if (world.rank() == 1) return world.abort();
    world.wait(world.start_all_reduce_sum(values.span()));
    (void)values.get();
  });
  CHECK_THAT(errors[0], Contains("NCCL: a peer is gone"));
}
