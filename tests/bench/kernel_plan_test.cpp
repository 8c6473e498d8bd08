#include "kernel_plan.h"

#include <cstring>
#include <set>
#include <string>
#include <tuple>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/bench/bench.h"

using namespace hgt;

namespace {

void check_occupancy(const Occupancy& found, int blocks, double share, const std::string& limit) {
  CHECK(found.blocks == blocks);
  CHECK(found.share == share);
  CHECK(found.limit == limit);
}

}  // namespace

TEST_CASE("the occupancy of a kernel is what is left of a multiprocessor's scarcest part") {
  check_occupancy(occupancy_of(90, 256, 32, 0), 8, 1, "threads");
  check_occupancy(occupancy_of(90, 32, 8, 0), 32, 0.5, "blocks");
  check_occupancy(occupancy_of(90, 256, 33, 0), 6, 0.75, "registers");  // 40 of each thread
  check_occupancy(occupancy_of(90, 256, 64, 0), 4, 0.5, "registers");
  check_occupancy(occupancy_of(90, 256, 255, 0), 1, 0.125, "registers");
  // 160 registers: 3 warps in each part of the multiprocessor, so 12, not 65536 / 5120 = 12.8.
  check_occupancy(occupancy_of(90, 128, 160, 0), 3, 12.0 / 64, "registers");
  // 1 KiB of each block is CUDA's own.
  check_occupancy(occupancy_of(80, 256, 32, 36864), 4, 0.5, "shared memory");
  check_occupancy(occupancy_of(90, 256, 32, 36864), 6, 0.75, "shared memory");
  check_occupancy(occupancy_of(90, 1024, 65, 0), 0, 0, "registers");
  CHECK_THROWS_WITH(occupancy_of(70, 256, 32, 0),
                    Catch::Matchers::Contains("the limits of sm_70 are not known"));
}

TEST_CASE(
    "each kernel of the table was compiled for both devices, can be launched, and needs no local "
    "memory") {
  std::set<std::tuple<std::string, std::string, int>> found;
  for (const CompiledKernel& k : compiled_kernels()) {
    INFO(k.source << " " << k.name << " sm_" << k.sm);
    CHECK(found.insert({k.source, k.name, k.sm}).second);
    CHECK(occupancy_of(k.sm, k.threads, k.registers, k.shared_bytes).blocks >= 1);
    CHECK(k.local_bytes == 0);
    CHECK(k.local_accesses == 0);
  }
  CHECK(found.size() > 300);
  for (const auto& [source, kernel, sm] : found)
    CHECK(found.count({source, kernel, 170 - sm}) == 1);
}

TEST_CASE("the plan of the ops has the kernels of a compute type, with their occupancy") {
  const nlohmann::ordered_json plan = plan_ops(DType::kBF16);
  bool has_norm = false;
  for (const auto& kernel : plan["kernels"]) {
    const std::string name = kernel["kernel"];
    CHECK(name.find("fp16") == name.npos);
    REQUIRE(kernel["devices"].size() == 2);
    if (name != "norm_rows<bf16 1 true true>") continue;
    has_norm = true;
    const auto& h200 = kernel["devices"][1];
    CHECK(h200["sm"] == 90);
    CHECK(h200["threads"] == 256);
    CHECK(h200["loads"]["16"] == 4);   // x, branch, gain, bias
    CHECK(h200["stores"]["16"] == 2);  // sum, y
    CHECK(h200["blocks_per_multiprocessor"].get<int>() * 8 == h200["occupancy"].get<double>() * 64);
  }
  CHECK(has_norm);
  const std::string text = bench_text(plan_ops(DType::kF32));
  CHECK_THAT(text, Catch::Matchers::Contains("CUDA kernels of steps in fp32, as nvcc "));
  CHECK_THAT(text, Catch::Matchers::Contains("activate<fp32>"));
  CHECK_THAT(text, !Catch::Matchers::Contains("bf16"));
}
