#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "support/ranks.h"

using namespace hgt;

namespace {

/// Rank 0's result of a bench by `ranks` threads.
nlohmann::ordered_json bench(const Connect& connect, int ranks, const CommBench& spec) {
  nlohmann::ordered_json result;
  const auto errors = run_ranks(connect, ranks, [&](Communicator& comm) {
    auto mine = bench_comm(comm, spec);
    if (comm.rank() == 0) result = std::move(mine);
  });
  for (const std::string& error : errors) CHECK(error.empty());
  result["backend"] = "a test's";
  return result;
}

/// Gives rank 0 one element that is not the sum.
class Damaging : public Communicator {
 public:
  explicit Damaging(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::uint64_t start_broadcast(std::span<std::byte> bytes, int root) override {
    return inner_->start_broadcast(bytes, root);
  }
  void barrier() override { inner_->barrier(); }
  std::uint64_t start_all_reduce_sum(std::span<std::byte> values, DType type) override {
    const std::uint64_t ticket = inner_->start_all_reduce_sum(values, type);
    inner_->wait(ticket);
    if (rank() == 0 && type == DType::kF32)
      reinterpret_cast<float*>(values.data() + values.size())[-1] += 1;
    return ticket;
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte> values, DType type,
                                         std::span<const OwnedRange> parts) override {
    return inner_->start_reduce_scatter_sum(values, type, parts);
  }
  std::uint64_t start_all_gather(std::span<std::byte> values,
                                 std::span<const OwnedRange> parts) override {
    return inner_->start_all_gather(values, parts);
  }
  void wait(std::uint64_t ticket) override { inner_->wait(ticket); }
  void make_wait(std::uint64_t ticket, const CudaQueue& queue) override {
    inner_->make_wait(ticket, queue);
  }
  void come_after(const CudaQueue& queue) override { inner_->come_after(queue); }
  std::uint64_t reduced_bytes() const override { return inner_->reduced_bytes(); }
  std::uint64_t gathered_bytes() const override { return inner_->gathered_bytes(); }
  void check() override { inner_->check(); }
  std::uint64_t sequence() const override { return inner_->sequence(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<Communicator> inner_;
};

}  // namespace

TEST_CASE("sizes double, and busbw follows from the number of ranks as in nccl-tests") {
  for (const Connect& connect : {Connect(over_shared_memory), Connect(over_tcp)}) {
    const auto result = bench(connect, 3, {.min_bytes = 12, .max_bytes = 100, .repeats = 2});
    REQUIRE(result["sizes"].size() == 4);
    for (const auto& size : result["sizes"]) {
      CHECK(size["bytes"] == 4 * size["count"].get<int>());
      CHECK(size["wrong"] == 0);
      const double algbw = size["algbw_bytes_per_sec"];
      CHECK(algbw ==
            Approx(size["bytes"].get<double>() / (size["us"]["median"].get<double>() * 1e-6)));
      CHECK(size["busbw_bytes_per_sec"].get<double>() == Approx(algbw * 4 / 3));
    }
    CHECK(result["sizes"][3]["bytes"] == 96);
  }
}

TEST_CASE("reduce-scatters and all-gathers have a part for each rank") {
  for (const char* op : {"reduce_scatter", "all_gather"}) {
    const auto result =
        bench(over_shared_memory, 3, {.op = op, .min_bytes = 4, .max_bytes = 4096, .repeats = 1});
    REQUIRE(result["sizes"].size() == 11);
    for (const auto& size : result["sizes"]) {
      CHECK(size["wrong"] == 0);
      CHECK(size["busbw_bytes_per_sec"].get<double>() ==
            Approx(size["algbw_bytes_per_sec"].get<double>() * 2 / 3));
    }
  }
}

TEST_CASE("what a broadcast sends is what a link carries") {
  const auto result =
      bench(over_shared_memory, 2,
            {.op = "broadcast", .min_bytes = 4096, .max_bytes = 4096, .repeats = 1});
  const auto& size = result["sizes"].at(0);
  CHECK(size["busbw_bytes_per_sec"] == size["algbw_bytes_per_sec"]);
  CHECK(size["wrong"] == 0);
  CHECK_THAT(bench_text(result),
             Catch::Matchers::Contains("broadcast of fp32, 2 workers over a test's") &&
                 Catch::Matchers::Contains("busbw GB/s"));
}

TEST_CASE("an element that comes out wrong on any rank is counted") {
  const Connect damaging = [](ControlChannel& channel, const GroupOptions& options) {
    return std::make_unique<Damaging>(over_shared_memory(channel, options));
  };
  const auto result = bench(damaging, 2, {.min_bytes = 8, .max_bytes = 8, .repeats = 1});
  CHECK(result["sizes"].at(0)["wrong"] == 1);
}
