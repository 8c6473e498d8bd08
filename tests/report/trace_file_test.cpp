#include "hgtrain/report/trace_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

using Kind = SpanRecord::Kind;

/// Thread "training": a step of 3 us with a product in it, a span that is not over, a block's, and
/// a collective.
std::vector<ThreadSpans> one_step() {
  return {{"training",
           {{"step", 4, 1'000'500, 1'003'500, 0, 0, Kind::kPhase, 0, -1},
            {"gemm", -1, 1'001'000, 1'002'000, 5000, 0, Kind::kOp, 1, -1},
            {"open", -1, 1'002'000, 0, 0, 0, Kind::kOp, 1, -1},
            {"forward", 2, 1'002'000, 1'003'000, 0, 0, Kind::kPhase, 1, 5},
            {"all_gather", 7, 1'002'000, 1'003'000, 0, 0, Kind::kCollective, 1, -1}}}};
}

nlohmann::json merged(const TemporaryFolder& folder, int ranks, std::vector<int>& missing) {
  File to = File::open(folder / "trace.json", O_WRONLY | O_CREAT | O_TRUNC);
  missing = merge_rank_traces(folder.path(), ranks, to);
  return parse_json<nlohmann::json>(read_file(folder / "trace.json", 1 << 20));
}

/// The events of spans.
nlohmann::json spans_in(const nlohmann::json& trace) {
  nlohmann::json spans = nlohmann::json::array();
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  return spans;
}

}  // namespace

TEST_CASE("the ranks' traces become one, in microseconds, with names for ranks and threads") {
  const TemporaryFolder folder;
  for (int rank = 0; rank < 2; ++rank)
    write_rank_trace(folder.path(), rank, rank == 0 ? "" : "stage 1", one_step());
  std::vector<int> missing;
  const auto trace = merged(folder, 2, missing);
  CHECK(missing.empty());
  const auto spans = spans_in(trace);
  REQUIRE(spans.size() == 8);
  CHECK(spans[0] == nlohmann::json{{"name", "step 4"},
                                   {"cat", "phase"},
                                   {"ph", "X"},
                                   {"ts", 1000.5},
                                   {"dur", 3.0},
                                   {"pid", 0},
                                   {"tid", 0},
                                   {"args", {{"number", 4}}}});
  CHECK(spans[1]["args"] == nlohmann::json{{"GFLOP/s", 5.0}});
  CHECK(spans[2]["name"] == "forward 2.5");
  CHECK(spans[2]["args"] == nlohmann::json{{"number", 2}, {"micro_batch", 5}});
  CHECK(spans[3]["name"] == "all_gather");
  CHECK(spans[3]["cat"] == "collective");
  CHECK(spans[3]["args"] == nlohmann::json{{"number", 7}});
  CHECK(spans[4]["pid"] == 1);
  CHECK(trace["traceEvents"][0]["args"]["name"] == "rank 0");
  CHECK(trace["traceEvents"][2]["args"]["name"] == "training");
  const auto& events = trace["traceEvents"];
  CHECK(std::ranges::any_of(events, [](const nlohmann::json& event) {
    return event["name"] == "process_name" && event["args"]["name"] == "rank 1: stage 1";
  }));
  CHECK(trace["otherData"].contains("clock_zero_unix_us"));
  remove_rank_traces(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder / "trace"));
}

TEST_CASE("a rank without a trace is named, and a line that broke off is left out") {
  const TemporaryFolder folder;
  write_rank_trace(folder.path(), 1, "", one_step());
  std::ofstream(folder / "trace/rank_1.jsonl", std::ios::app) << R"({"name":"st)";
  std::vector<int> missing;
  const auto trace = merged(folder, 3, missing);
  CHECK(missing == std::vector<int>{0, 2});
  CHECK(spans_in(trace).size() == 4);
}
