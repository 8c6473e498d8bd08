#include "step_exchange.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

TEST_CASE("the results of two steps come back in the order of the steps") {
  ThreadPool pool(1);
  StepExchange exchange(3, pool);
  const auto comm = make_self_communicator();
  for (const double step : {1.0, 2.0}) {
    exchange.clear_losses();
    *exchange.loss(1) = 10 * step;
    Update update{};
    update.tokens = step;
    exchange.send(update, step == 1, step == 2);
    CHECK(exchange.update()->tokens == step);
    exchange.begin_wait();
    exchange.end_wait();
    exchange.update()->loss = exchange.losses().data<double>()[1];
    exchange.fetch();
  }
  const auto first = exchange.take(*comm), second = exchange.take(*comm);
  CHECK(first.update.loss == 10);
  CHECK(second.update.loss == 20);
  CHECK((first.stop == 1 && first.checkpoint == 0));
  CHECK((second.stop == 0 && second.checkpoint == 1));
}

TEST_CASE("the control flags of a step are summed with its losses, which begin at zero") {
  ThreadPool pool(1);
  StepExchange exchange(2, pool);
  exchange.send({}, true, false);
  exchange.clear_losses();
  CHECK(exchange.sums().size() == 4);
  CHECK((exchange.sums()[0] == 0 && exchange.sums()[1] == 0 && exchange.sums()[2] == 1));
}

TEST_CASE("whoever takes results hears of a communicator that failed") {
  ThreadPool pool(1);
  StepExchange exchange(1, pool);
  const auto comm = make_self_communicator();
  exchange.send({}, false, false);
  exchange.fetch();
  comm->abort();
  CHECK_THROWS_AS(exchange.take(*comm), Error);
}
