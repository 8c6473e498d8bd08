#include "restart_budget.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace hgt;

namespace {

Verdict failure_of(int rank) {
  Verdict out;
  out.rank = rank;
  return out;
}

}  // namespace

TEST_CASE("only restarts without a later checkpoint count") {
  RestartBudget budget(2, 0);
  CHECK(budget.take(failure_of(0)) == " (1 of 2)");
  CHECK(budget.hear("checkpoint", {{"step", 5}}));
  CHECK(budget.take(failure_of(0)) == " (1 of 2 since the checkpoint of step 5)");
  CHECK_FALSE(budget.hear("started", {{"step", 5}}));
  CHECK_FALSE(budget.hear("checkpoint", {{"step", 5}}));  // the same one again
  CHECK(budget.take(failure_of(0)) == " (2 of 2 since the checkpoint of step 5)");
  CHECK_FALSE(budget.take(failure_of(0)));
}

TEST_CASE("resuming alone is no progress") {
  RestartBudget budget(1, 0);
  CHECK_FALSE(budget.hear("started", {{"step", 7}}));
  CHECK_FALSE(budget.hear("metrics", {}));
  CHECK(budget.take(failure_of(0)) == " (1 of 1 since the checkpoint of step 7)");
  CHECK_FALSE(budget.take(failure_of(0)));
}

TEST_CASE("the loss of a host costs no restart until too many are lost without progress") {
  RestartBudget budget(1, 2);
  CHECK(budget.why_none(failure_of(0)) == "");
  CHECK(RestartBudget(0, 0).why_none(failure_of(-1)) == "");
  CHECK(budget.take(failure_of(-1)) == "");
  CHECK(budget.take(failure_of(-1)) == "");
  CHECK(budget.take(failure_of(-1)) == " (1 of 1)");
  CHECK_FALSE(budget.take(failure_of(-1)));
  CHECK_THAT(budget.why_none(failure_of(-1)), Catch::Contains("2 losses of hosts"));
  CHECK(budget.hear("checkpoint", {{"step", 1}}));
  CHECK(budget.take(failure_of(-1)) == "");
}
