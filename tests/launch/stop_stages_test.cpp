#include "stop_stages.h"

#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;
using Stage = StopStages::Stage;
using Stages = std::vector<Stage>;

namespace {

/// A rank of an attempt whose limits are 0: each stage is followed by the next at once.
struct StoppedAttempt {
  explicit StoppedAttempt(bool own_workers) {
    spec.own_workers = own_workers;
    spec.stop_limit = spec.grace = std::chrono::milliseconds(0);
    record.ranks.resize(1);
    record.ranks[0].pulse.greeted = false;
  }
  void run_until(Stage stage) {
    while (stages.stage() < stage) io.run_one();
  }

  asio::io_context io;
  JobSpec spec;
  AttemptRecord record{spec, 0, {}, {}};
  Stages entered;
  StopStages stages{io, record, [this](Stage stage) { entered.push_back(stage); }};
};

}  // namespace

TEST_CASE("a worker of hgtrain that does not stop in time gets SIGTERM, then SIGKILL") {
  StoppedAttempt attempt(true);
  attempt.stages.advance(Stage::kStopping);
  attempt.run_until(Stage::kKilling);
  CHECK(attempt.entered == Stages{Stage::kStopping, Stage::kTerminating, Stage::kKilling});
}

TEST_CASE("another program that does not obey the user's signal gets SIGKILL") {
  StoppedAttempt attempt(false);
  attempt.stages.advance(Stage::kStopping);
  attempt.run_until(Stage::kKilling);
  CHECK(attempt.entered == Stages{Stage::kStopping, Stage::kKilling});
}

TEST_CASE("if no rank is left that obeys an abort, the ranks get SIGTERM at once") {
  StoppedAttempt attempt(false);
  attempt.stages.advance(Stage::kAborting);
  CHECK(attempt.entered == Stages{Stage::kAborting, Stage::kTerminating});
}

TEST_CASE("how long ranks have until they are killed is known") {
  using std::chrono::seconds;
  StoppedAttempt attempt(false);
  attempt.spec.grace = seconds(1000);
  attempt.stages.advance(Stage::kAborting);
  CHECK(attempt.stages.until_kill() <= seconds(1000));
  CHECK(attempt.stages.until_kill() > seconds(500));
  attempt.stages.cancel();
}

TEST_CASE("the time until ranks are killed counts that until SIGTERM") {
  using std::chrono::seconds;
  const bool own_workers = GENERATE(false, true);
  StoppedAttempt attempt(own_workers);
  attempt.spec.grace = attempt.spec.stop_limit = seconds(1000);
  attempt.stages.advance(Stage::kStopping);
  CHECK(attempt.stages.until_kill() <= seconds(own_workers ? 2000 : 1000));
  CHECK(attempt.stages.until_kill() > seconds(own_workers ? 1500 : 500));
  attempt.stages.cancel();
}

TEST_CASE("no stage is entered twice or after a later one, and none follows the last") {
  StoppedAttempt attempt(false);
  attempt.stages.advance(Stage::kTerminating);
  attempt.stages.advance(Stage::kTerminating);
  attempt.stages.advance(Stage::kStopping);
  attempt.stages.advance(Stage::kFinished);
  attempt.io.run();
  CHECK(attempt.entered == Stages{Stage::kTerminating, Stage::kFinished});
}
