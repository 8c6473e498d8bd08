#include "attempt_record.h"

#include <csignal>

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>

#include "merged_output.h"
#include "silent_agent.h"

using namespace hgt;

namespace {

/// Two ranks on host a, two on host b; none has ended.
class Attempt {
 public:
  explicit Attempt(bool own_workers = false) {
    spec_.num_workers = 4;
    spec_.own_workers = own_workers;
    record.hosts = {{&a_.link, 0, 2, {}}, {&b_.link, 2, 2, {}}};
    record.ranks.resize(4);
    for (int rank = 0; rank < 4; ++rank) {
      view(rank).pulse.rank = rank;
      view(rank).pulse.greeted = false;
      view(rank).pid = 100 + rank;
      view(rank).host = rank < 2 ? 0 : 1;
    }
  }

  RankView& view(int rank) { return record.ranks[static_cast<std::size_t>(rank)]; }
  void end(int rank, int wait_status, std::int64_t at_ns, bool signalled = false) {
    Ended out;
    out.rank = rank;
    out.wait_status = wait_status;
    out.at_ns = at_ns;
    out.signalled = signalled;
    view(rank).end = out;
  }
  void fail(int rank, const std::string& message = "") {
    Failure failure = failure_from_end(*view(rank).end, spec_.own_workers);
    failure.host = static_cast<int>(view(rank).host);
    failure.message = message;
    record.failures.emplace(rank, failure);
  }
  Verdict verdict() const { return verdict_on(record); }

 private:
  asio::io_context io_;
  MergedOutput console_{io_, {}};
  SilentAgent a_{io_, console_, "a"};
  SilentAgent b_{io_, console_, "b"};
  JobSpec spec_;

 public:
  AttemptRecord record{spec_, 0, {}, {}};
};

constexpr int kExited3 = 3 << 8;

}  // namespace

TEST_CASE("an attempt whose ranks all exited with 0 is done") {
  Attempt attempt;
  for (int rank = 0; rank < 4; ++rank) attempt.end(rank, 0, 10 + rank);
  CHECK(attempt.verdict().outcome == Verdict::Outcome::kDone);
  CHECK(attempt.verdict().exit_code == 0);
  CHECK(attempt.verdict().world_size == 4);
}

TEST_CASE("the verdict names the rank that failed first, its host, and how many were stopped") {
  Attempt attempt;
  attempt.end(0, 0, 5);  // it had ended before
  attempt.end(2, kExited3, 10);
  attempt.end(1, SIGTERM, 20, true);
  attempt.end(3, SIGTERM, 21, true);
  attempt.view(2).last_lines = {"one", "two"};
  attempt.fail(2);
  const Verdict verdict = attempt.verdict();
  CHECK(verdict.outcome == Verdict::Outcome::kFailed);
  CHECK(verdict.rank == 2);
  CHECK(verdict.host == "b");
  CHECK(verdict.pid == 102);
  CHECK(verdict.exit_code == 3);
  CHECK(verdict.reason == "exited with code 3");
  CHECK(verdict.stopped_ranks == 2);
  CHECK(verdict.last_lines == std::vector<std::string>{"one", "two"});
  CHECK(verdict.step == -1);
}

TEST_CASE("a program whose Gloo takes the loopback of its host gets a hint if there are several") {
  Attempt attempt;
  attempt.end(2, kExited3, 10);
  attempt.view(2).last_lines = {
      "RuntimeError: Gloo connectFullMesh failed with [tcp/pair.cc:144] no error",
      "[tcp/unbound_buffer.cc:78] connect [127.0.1.1]:37455: Connection refused"};
  attempt.fail(2);
  CHECK_THAT(attempt.verdict().hint, Catch::Contains("--env GLOO_SOCKET_IFNAME=NAME"));
  attempt.view(2).last_lines.pop_back();
  CHECK(attempt.verdict().hint.empty());
  Attempt alone;
  alone.end(0, kExited3, 10);
  alone.view(0).last_lines = {"Gloo connectFullMesh failed", "127.0.1.1"};
  alone.fail(0);
  alone.record.hosts.pop_back();
  CHECK(alone.verdict().hint.empty());
}

TEST_CASE("a rank that ended with an error of its own does not count as stopped") {
  const bool own_workers = GENERATE(false, true);  // they were told to end with an error
  Attempt attempt(own_workers);
  attempt.record.ranks.resize(5);
  attempt.view(4).pulse.rank = 4;
  attempt.end(2, kExited3, 10);
  attempt.end(1, SIGSEGV, 12);
  attempt.end(0, SIGTERM, 20, true);
  attempt.end(3, kExited3, 21, true);  // it may have got the signal while it was ending
  attempt.end(4, 1 << 8, 22, true);    // because of the signal
  attempt.fail(2);
  attempt.fail(1);
  CHECK(attempt.verdict().rank == 2);
  CHECK(attempt.verdict().failed_ranks == (own_workers ? 0 : 2));
  CHECK(attempt.verdict().stopped_ranks == (own_workers ? 4 : 2));
}

TEST_CASE("no rank of a lost host counts as stopped") {
  Attempt attempt;
  for (const int host : {0, 1}) {
    Failure lost;
    lost.rank = -1;
    lost.host = host;
    lost.host_name = host == 0 ? "a" : "b";
    lost.at_ns = 10 + host;
    attempt.record.failures.emplace(lost.key(), lost);
  }
  CHECK(attempt.verdict().host == "a");
  CHECK(attempt.verdict().stopped_ranks == 0);
}

TEST_CASE("a rank counts as stopped if its end only seems to have come before the failure") {
  Attempt attempt;
  attempt.end(2, kExited3, 100);
  attempt.fail(2);
  attempt.end(0, SIGTERM, 90, true);
  attempt.end(1, SIGTERM, 90, true);
  attempt.end(3, 0, 5);
  attempt.view(0).end_uncertainty_ns = 10;
  attempt.view(1).end_uncertainty_ns = 9;
  CHECK(attempt.verdict().stopped_ranks == 1);
}

TEST_CASE("a failure on another host that the clocks cannot order is named") {
  Attempt attempt;
  attempt.end(2, kExited3, 10'000'000);
  attempt.fail(2);
  Failure other;
  other.rank = GENERATE(0, -1);
  other.host = 0;
  other.host_name = "a";
  other.at_ns = 10'500'000;
  other.uncertainty_ns = 2'000'000;
  attempt.record.failures.emplace(other.key(), other);
  CHECK(attempt.verdict().doubt ==
        std::string(other.rank == 0 ? "rank 0 on a" : "host a") +
            " failed within 0.5 ms of it, and the hosts' clocks are known to 2.0 ms: it may have "
            "been the first");
}

TEST_CASE("if a worker of hgtrain sent a message, the verdict repeats no lines of its log") {
  Attempt attempt(true);
  attempt.end(1, 4 << 8, 10);
  attempt.view(1).last_lines = {"error: the data is damaged"};
  attempt.fail(1, "the data is damaged");
  CHECK(attempt.verdict().message == "the data is damaged");
  CHECK(attempt.verdict().last_lines.empty());
}

TEST_CASE("the ranks of a lost host do not count as stopped") {
  Attempt attempt;
  Failure failure;
  failure.rank = -1;
  failure.host = 1;
  failure.host_name = "b";
  failure.exit_code = 6;
  failure.reason = "is lost: its connection ended";
  attempt.record.failures.emplace(failure.key(), failure);
  const Verdict verdict = attempt.verdict();
  CHECK(verdict.culprit() == "host b");
  CHECK(verdict.exit_code == 6);
  CHECK(verdict.stopped_ranks == 2);
}

TEST_CASE("if a program could not listen on MASTER_PORT, the verdict names the process that does") {
  Attempt attempt;
  attempt.record.master_port = 29500;
  attempt.record.port_user = "nginx (pid 7)";
  attempt.end(0, kExited3, 10);
  attempt.fail(0);
  CHECK(attempt.verdict().hint.starts_with("nginx (pid 7) listens on MASTER_PORT 29500"));
}

TEST_CASE(
    "a stop by the user is reported with its signal, and SIGKILL is not reported as the reason") {
  Attempt attempt;
  attempt.record.stop_signal = SIGINT;
  attempt.record.stopped_by = "SIGINT";
  for (int rank = 0; rank < 4; ++rank) attempt.end(rank, SIGKILL, 10 + rank, true);
  CHECK(attempt.verdict().outcome == Verdict::Outcome::kStopped);
  CHECK(attempt.verdict().exit_code == 128 + SIGINT);
  CHECK(attempt.verdict().reason == "stopped by SIGINT");
}

TEST_CASE("a stop of workers that were connecting ends the job with 75, however they ended") {
  Attempt attempt(true);
  attempt.record.stop_signal = SIGINT;
  attempt.record.stopped_by = "SIGINT";
  attempt.record.ended_connecting = true;
  attempt.end(0, 6 << 8, 10);
  for (int rank = 1; rank < 4; ++rank) attempt.end(rank, SIGKILL, 10 + rank, true);
  CHECK(attempt.verdict().outcome == Verdict::Outcome::kStopped);
  CHECK(attempt.verdict().exit_code == 75);
  CHECK(attempt.verdict().reason == "stopped by SIGINT while its ranks were connecting");
}

TEST_CASE("workers that stopped early with a checkpoint end the job with 75") {
  Attempt attempt(true);
  for (int rank = 0; rank < 4; ++rank) attempt.end(rank, 75 << 8, 10 + rank);
  CHECK(attempt.verdict().exit_code == 75);
  CHECK(attempt.verdict().reason == "stopped early");
}
