#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "collectives.h"

using namespace hgt;

namespace {

/// A group of one rank that records its calls; a sum of 13 values fails.
class Recorder final : public Collectives {
 public:
  explicit Recorder(std::vector<std::string>& calls) : calls_(calls) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void entered() override { ++entered_; }
  void announce(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::copy(mine.begin(), mine.end(), all.begin());
  }
  void reduce_scatter(std::span<std::byte> values, DType type,
                      std::span<const OwnedRange> parts) override {
    calls_.push_back("reduce-scatter " + std::string(name_of(type)) + " " +
                     std::to_string(values.size() / size_of(type)) + " in " +
                     std::to_string(parts.size()));
  }
  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts) override {
    calls_.push_back("all-gather " + std::to_string(values.size()) + " in " +
                     std::to_string(parts.size()));
  }
  void sum(std::span<std::byte> values, DType type) override {
    if (values.size() == 13 * 4) throw Error(ErrorKind::kPeer, "rank 1 is gone");
    if (type == DType::kF32)
      for (float& value : std::span(reinterpret_cast<float*>(values.data()), values.size() / 4))
        value += value;
    calls_.push_back(std::string(name_of(type)) + " " +
                     std::to_string(values.size() / size_of(type)));
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    calls_.push_back("broadcast " + std::to_string(bytes.size()) + " from " + std::to_string(root));
  }
  void leave() noexcept override { calls_.push_back("leave " + std::to_string(entered_)); }
  void abort() noexcept override { calls_.push_back("abort"); }

 private:
  std::vector<std::string>& calls_;
  int entered_ = 0;
};

/// Sums until it is told to end, even if the communicator was aborted.
class SlowSum final : public Collectives {
 public:
  SlowSum(std::promise<void>& begun, std::shared_future<void> end, std::atomic<bool>& ended)
      : begun_(begun), end_(std::move(end)), ended_(ended) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void entered() override {}
  void announce(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::copy(mine.begin(), mine.end(), all.begin());
  }
  void reduce_scatter(std::span<std::byte>, DType, std::span<const OwnedRange>) override {}
  void all_gather(std::span<std::byte>, std::span<const OwnedRange>) override {}
  void sum(std::span<std::byte>, DType) override {
    begun_.set_value();
    end_.wait();
    ended_ = true;
  }
  void broadcast(std::span<std::byte>, int) override {}
  void leave() noexcept override {}
  void abort() noexcept override {}

 private:
  std::promise<void>& begun_;
  const std::shared_future<void> end_;
  std::atomic<bool>& ended_;
};

}  // namespace

TEST_CASE("the thread that computes sums flushes denormals") {
  std::vector<std::string> calls;
  std::vector<float> tiny{std::numeric_limits<float>::denorm_min()};
  const auto channel = ControlChannel::open({});
  make_queued_communicator(*channel, std::make_unique<Recorder>(calls))->all_reduce_sum(tiny);
  CHECK(std::bit_cast<std::uint32_t>(tiny[0]) == 0);
}

TEST_CASE("collectives run in call order, and the group is left when all are done") {
  std::vector<std::string> calls;
  std::vector<float> floats(5);
  std::vector<double> doubles(6);
  std::vector<std::byte> bytes(7);
  const auto channel = ControlChannel::open({});
  {
    const auto comm = make_queued_communicator(*channel, std::make_unique<Recorder>(calls));
    const std::uint64_t first = comm->start_all_reduce_sum(floats);
    const std::uint64_t second = comm->start_all_reduce_sum(std::span(floats).first(2));
    comm->all_reduce_sum(doubles);
    comm->broadcast(bytes, 0);
    comm->barrier();
    comm->reduce_scatter_sum(floats, std::vector<OwnedRange>{{{0, 2}, 0}, {{2, 5}, 0}});
    comm->all_gather(bytes, std::vector<OwnedRange>{{{0, 7}, 0}});
    comm->wait(second);
    comm->wait(first);
    CHECK(comm->sequence() == 7);
    CHECK(comm->reduced_bytes() == 5 * 4 + 2 * 4 + 6 * 8 + 5 * 4);
    CHECK(comm->gathered_bytes() == 7);
  }
  CHECK(calls == std::vector<std::string>{"fp32 5", "fp32 2", "fp64 6", "broadcast 7 from 0",
                                          "reduce-scatter fp32 5 in 2", "all-gather 7 in 1",
                                          "leave 7"});
}

TEST_CASE("a failed collective is named, ends the communicator, and the group is not waited for") {
  std::vector<std::string> calls;
  std::vector<float> floats(13);
  const auto channel = ControlChannel::open({});
  {
    const auto comm = make_queued_communicator(*channel, std::make_unique<Recorder>(calls));
    comm->barrier();
    const std::uint64_t ticket = comm->start_all_reduce_sum(floats);
    try {
      comm->wait(ticket);
      FAIL("the failure was swallowed");
    } catch (const Error& error) {
      CHECK(error.message() == "rank 1 is gone");
      CHECK(error.context() == std::vector<std::string>{"collective 2 (sum of 13 fp32)"});
    }
    CHECK_THROWS_WITH(comm->barrier(), "rank 1 is gone");
  }
  CHECK(calls.empty());
}

TEST_CASE("after abort a wait throws only once the collective no longer uses its memory") {
  std::promise<void> begun, end;
  std::atomic<bool> ended = false;
  std::vector<float> floats(3);
  const auto channel = ControlChannel::open({});
  const auto comm = make_queued_communicator(
      *channel, std::make_unique<SlowSum>(begun, end.get_future().share(), ended));
  const std::uint64_t ticket = comm->start_all_reduce_sum(floats);
  begun.get_future().wait();
  comm->abort();
  auto waits = std::async(std::launch::async, [&] {
    try {
      comm->wait(ticket);
    } catch (const Error&) {
      return ended.load();
    }
    return false;
  });
  waits.wait_for(std::chrono::milliseconds(20));  // most often, it waits by then
  end.set_value();
  CHECK(waits.get());
}

TEST_CASE("after abort every call throws") {
  std::vector<std::string> calls;
  const auto channel = ControlChannel::open({});
  {
    const auto comm = make_queued_communicator(*channel, std::make_unique<Recorder>(calls));
    comm->abort();
    CHECK_THROWS_WITH(comm->barrier(), Catch::Contains("aborted"));
  }
  CHECK(calls == std::vector<std::string>{"abort"});
}
