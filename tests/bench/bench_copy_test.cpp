#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "support/fake_cuda.h"

using namespace hgt;

TEST_CASE("the CPU's copies are timed by threads, up to as many as there are") {
  const auto result = bench_copy({.bytes = 1 << 16, .threads = 6, .repeats = 3});
  std::vector<int> threads;
  for (const auto& copy : result["copies"]) {
    threads.push_back(copy["threads"]);
    CHECK(copy["bytes_per_sec"]["p10"].get<double>() > 0);
  }
  CHECK(threads == std::vector<int>{1, 2, 4, 6});
  const std::string text = bench_text(result);
  CHECK_THAT(text, Catch::Matchers::Contains("copies of 64.0 KiB") &&
                       Catch::Matchers::Contains("memory to memory, 6 threads"));
}

TEST_CASE("a GPU's copies are within it, and from and to the host") {
  const CudaModule module = fake_cuda::module(nullptr, nullptr);
  const auto result = bench_copy({.bytes = 1 << 16, .threads = 1, .repeats = 2}, &module);
  CHECK(result["device"] == "cuda");
  CHECK(result["copies"].size() == 5);
  for (const auto& copy : result["copies"])
    CHECK(copy["bytes_per_sec"]["median"].get<double>() > 0);
  CHECK_THAT(bench_text(result), Catch::Matchers::Contains("device to host, pageable"));
}
