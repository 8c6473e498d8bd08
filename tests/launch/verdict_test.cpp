#include "hgtrain/launch/verdict.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/refusal.h"

using namespace hgt;

namespace {

Verdict failed() {
  Verdict v;
  v.outcome = Verdict::Outcome::kFailed;
  v.exit_code = 4;
  v.world_size = 64;
  v.stopped_ranks = 63;
  v.rank = 5;
  v.pid = 4711;
  v.host = "n02";
  v.step = 41;
  v.reason = "exited with code 4";
  v.log_path = "run/logs/rank_5.log";
  v.last_lines = {"reading", "oops"};
  return v;
}

}  // namespace

TEST_CASE(
    "a failure is reported once: who, why, the last lines, the log, and what became of the "
    "others") {
  CHECK(failed().render() ==
        "hgtrain: error: rank 5 of 64 (pid 4711 on n02) exited with code 4 after step 41\n"
        "  the last lines of rank 5 (more in run/logs/rank_5.log):\n"
        "    | reading\n"
        "    | oops\n"
        "  the other 63 ranks were stopped\n");
}

TEST_CASE("a rank is named with its place in the job") {
  Verdict v = failed();
  v.place = "stage 1, tensor rank 0";
  CHECK(v.render().find("rank 5 of 64 (stage 1, tensor rank 0; pid 4711 on n02) exited") !=
        std::string::npos);
}

TEST_CASE("a verdict that is not certain says so") {
  Verdict v = failed();
  v.doubt = "rank 9 on n03 may have been the first";
  CHECK(v.render().find("\n  rank 9 on n03 may have been the first\n  the other 63") !=
        std::string::npos);
  CHECK(nlohmann::json(v)["first_failure"]["doubt"] == v.doubt);
  CHECK_FALSE(nlohmann::json(failed())["first_failure"].contains("doubt"));
}

TEST_CASE("a job that is not started again says why") {
  Verdict v = failed();
  v.no_restart = "host b cannot be used: down";
  v.hint = "wait for longer";
  CHECK(v.render().find("were stopped\n  no restart: host b cannot be used: down\n  hint: wait") !=
        std::string::npos);
  CHECK(nlohmann::json(v)["first_failure"]["no_restart"] == v.no_restart);
  CHECK_FALSE(nlohmann::json(failed())["first_failure"].contains("no_restart"));
}

TEST_CASE("a host that is lost is named once, and none of its ranks") {
  Verdict v = failed();
  v.rank = -1;
  v.reason = "is lost: its connection has ended";
  v.log_path.clear();
  v.last_lines.clear();
  v.stopped_ranks = 32;
  CHECK(v.render() ==
        "hgtrain: error: host n02 is lost: its connection has ended\n"
        "  32 other ranks were stopped\n");
  v.lost_hosts = {"c"};
  CHECK(has(v.render(), "\n  host c was lost, too\n"));
  v.lost_hosts = {"c", "d"};
  CHECK(has(v.render(), "\n  hosts c, d were lost, too\n"));
  CHECK(nlohmann::json(v)["first_failure"]["lost_hosts"] == nlohmann::json{"c", "d"});
}

TEST_CASE("other ranks ended with errors, too, or were stopped") {
  Verdict v = failed();
  const auto others = [&](int world_size, int failed, int stopped) {
    v.world_size = world_size;
    v.failed_ranks = failed;
    v.stopped_ranks = stopped;
    const std::string text = v.render();
    return text.substr(text.find("    | oops\n") + 11);
  };
  CHECK(others(2, 1, 0) == "  the other rank ended with an error, too\n");
  CHECK(others(4, 3, 0) == "  the other 3 ranks ended with errors, too\n");
  CHECK(others(4, 1, 2) ==
        "  1 other rank ended with an error, too\n  2 other ranks were stopped\n");
  CHECK(others(4, 2, 1) == "  2 other ranks ended with errors, too\n  1 other rank was stopped\n");
}

TEST_CASE("the rank's own words come first") {
  Verdict v = failed();
  v.message = "the token file is damaged";
  v.context = {"train.bin", "the run"};
  v.hint = "prepare it again";
  v.last_lines.clear();
  v.log_path.clear();
  v.rank = 1;
  v.world_size = 2;
  v.stopped_ranks = 1;
  v.restarts = 2;
  CHECK(v.render() ==
        "hgtrain: error: the token file is damaged\n"
        "  in train.bin\n"
        "  in the run\n"
        "  rank 1 of 2 (pid 4711 on n02) exited with code 4 after step 41\n"
        "  it failed after 2 restarts\n"
        "  the other rank was stopped\n"
        "  hint: prepare it again\n");
}

TEST_CASE("what a rank said itself is not shown a second time from its log") {
  Verdict v = failed();
  v.last_lines.clear();
  v.stopped_ranks = 0;
  CHECK(v.render().find("it has printed nothing; its log: run/logs/rank_5.log") !=
        std::string::npos);
  v.message = "the token file is damaged";
  CHECK(v.render() ==
        "hgtrain: error: the token file is damaged\n"
        "  rank 5 of 64 (pid 4711 on n02) exited with code 4 after step 41\n"
        "  its log: run/logs/rank_5.log\n");
}

TEST_CASE("a job that is done says nothing, one that was stopped says why") {
  Verdict v;
  CHECK(v.render() == "");
  v.outcome = Verdict::Outcome::kStopped;
  v.reason = "stopped by SIGTERM";
  CHECK(v.render() == "hgtrain: stopped by SIGTERM\n");
}

TEST_CASE("a verdict as JSON has what run.json needs, even if the last lines are not UTF-8") {
  Verdict v = failed();
  v.last_lines.push_back("\xff");
  const nlohmann::json json = v;
  CHECK(json["outcome"] == "failed");
  CHECK(json["exit_code"] == 4);
  CHECK(json["first_failure"]["rank"] == 5);
  CHECK(json["first_failure"]["step"] == 41);
  CHECK_NOTHROW(json.dump());
  CHECK_FALSE(nlohmann::json(Verdict()).contains("first_failure"));
}
