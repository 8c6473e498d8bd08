#include "hgtrain/report/profile.h"

#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

using Kind = SpanRecord::Kind;

constexpr std::int64_t kMs = 1'000'000;

/// Two steps of 10 ms: a product of 4 ms within linear_fwd, a norm of 2 ms, a wait of 1 ms. Around
/// them is what belongs to no step.
std::vector<ThreadSpans> two_steps() {
  ThreadSpans training{"training", {}};
  training.spans.push_back({"evaluate", 2, 1, 5 * kMs, 0, 0, Kind::kRare, 0, -1});
  training.spans.push_back({"gemm", -1, 2, 4 * kMs, 9e9, 0, Kind::kOp, 1, -1});
  for (std::int64_t step = 3; step < 5; ++step) {
    const std::int64_t t = step * 20 * kMs;
    training.spans.insert(
        training.spans.end(),
        {{"step", step, t, t + 10 * kMs, 0, 0, Kind::kPhase, 0, -1},
         {"forward", 0, t, t + 9 * kMs, 0, 0, Kind::kPhase, 1, -1},
         {"linear_fwd", -1, t, t + 5 * kMs, 0, 0, Kind::kOp, 2, -1},
         {"gemm", -1, t, t + 4 * kMs, 4e6, 0, Kind::kOp, 3, -1},
         {"layer_norm_fwd", -1, t + 5 * kMs, t + 7 * kMs, 0, 1e6, Kind::kOp, 2, -1},
         {"wait for sums", -1, t + 9 * kMs, t + 10 * kMs, 0, 0, Kind::kOp, 1, -1}});
  }
  training.spans.push_back({"step", 5, 200 * kMs, 0, 0, 0, Kind::kPhase, 0, -1});  // not over
  training.spans.push_back({"gemm", -1, 200 * kMs, 201 * kMs, 0, 0, Kind::kOp, 1, -1});
  return {{"data", {{"step", 3, 1, 2, 0, 0, Kind::kPhase, 0, -1}}}, training};
}

Profile two_steps_profile() {
  return make_profile(two_steps(), {.flops_per_sec = 2e9, .bytes_per_sec = 1e9});
}

}  // namespace

TEST_CASE("a profile counts the innermost ops of the steps, and what lies between them") {
  const Profile profile = two_steps_profile();
  CHECK(profile.first_step == 3);
  CHECK(profile.steps == 2);
  CHECK(profile.total_ms == Approx(20));
  REQUIRE(profile.rows.size() == 3);
  CHECK(profile.rows[0].op == "linear_fwd gemm");
  CHECK(profile.rows[0].calls == 2);
  CHECK(profile.rows[0].ms == Approx(8));
  CHECK(profile.rows[0].work.flops == 8e6);
  CHECK(profile.rows[1].op == "layer_norm_fwd");
  CHECK(profile.rows[2].op == "wait for sums");
  double sum = profile.outside_ms;
  for (const Profile::Row& row : profile.rows) sum += row.ms;
  CHECK(sum == Approx(profile.total_ms));
}

TEST_CASE("the table has rates, and their share of what the machine can do") {
  CHECK(profile_table(two_steps_profile()) ==
        "profile of rank 0, 2 steps from step 3 on\n"
        "  op                                   calls   ms a step    share          rate  of max\n"
        "  linear_fwd gemm                          1       4.000    40.0%  1.00 GFLOP/s     50%\n"
        "  layer_norm_fwd                           1       2.000    20.0%      500 MB/s     50%\n"
        "  wait for sums                            1       1.000    10.0%                      \n"
        "  in no op                                         3.000    30.0%                      \n"
        "  step                                            10.000   100.0%                      \n"
        "max: products 2.00 GFLOP/s, copies 1.00 GB/s, measured before the first step\n");
}

TEST_CASE("a profile is read as it was written, and refused if it is damaged") {
  const TemporaryFolder folder;
  const Profile profile = two_steps_profile();
  write_profile(folder.path(), profile);
  CHECK(profile_table(read_profile(folder.path())) == profile_table(profile));
  std::ofstream(folder / "profile.json") << R"({"steps": 2})";
  CHECK_THROWS_AS(read_profile(folder.path()), Error);
}

TEST_CASE("without a step there is no time and nothing to divide by") {
  const Profile profile = make_profile({}, {});
  CHECK(profile.steps == 0);
  CHECK(profile_table(profile).find("nan") == std::string::npos);
}
