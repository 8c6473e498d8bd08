#include "step_exchange.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/thread_pool.h"

#include "support/ranks.h"

using namespace hgt;

TEST_CASE("the results of two steps come back in the order of the steps") {
  ThreadPool pool(1);
  StepExchange exchange(3, 2, pool, pool);
  const auto comm = make_self_communicator();
  for (const double step : {1.0, 2.0}) {
    exchange.clear_sums();
    *exchange.loss(1) = 10 * step;
    Update update{};
    update.tokens = step;
    exchange.send(update, {.stop = step == 1, .checkpoint = step == 2});
    CHECK(exchange.update()->tokens == step);
    exchange.update()->loss = exchange.losses().data<double>()[1];
    exchange.fetch();
  }
  const auto first = exchange.take(*comm), second = exchange.take(*comm);
  CHECK(first.update.loss == 10);
  CHECK(second.update.loss == 20);
  CHECK((first.stop == 1 && first.checkpoint == 0));
  CHECK((second.stop == 0 && second.checkpoint == 1));
}

TEST_CASE("a step begins without losses and squares, and sends its control flags after them") {
  ThreadPool pool(1);
  StepExchange exchange(2, 3, pool, pool);
  const auto comm = make_self_communicator();
  *exchange.loss(1) = exchange.squares().data<double>()[2] = 5;
  exchange.clear_sums();
  exchange.send({}, {.stop = true});
  exchange.sum_losses_and_squares(*comm);
  CHECK((*exchange.loss(0) == 0 && *exchange.loss(1) == 0));
  CHECK((*exchange.loss(2) == 1 && *exchange.loss(3) == 0));
  for (int i = 0; i < 3; ++i) CHECK(exchange.squares().data<double>()[i] == 0);
}

TEST_CASE("ranks share what they use, and the largest of each value comes back") {
  const auto errors = run_ranks(over_shared_memory, 3, [&](Communicator& comm) {
    ThreadPool pool(1);
    StepExchange exchange(2, 4, pool, pool, comm.rank(), comm.size());
    for (const bool with_squares : {false, true}) {
      exchange.clear_sums();
      const double rank = comm.rank();
      exchange.send({}, {}, {1 + rank, 10 - rank, rank == 1 ? 5.0 : 0.0});
      exchange.squares().data<double>()[0] = 7;
      with_squares ? exchange.sum_losses_and_squares(comm) : exchange.sum_losses(comm);
      exchange.fetch();
      const auto results = exchange.take(comm);
      if (results.usage != RankUsage{3, 10, 5} || results.stop != 0 || results.checkpoint != 0 ||
          exchange.squares().data<double>()[0] != (with_squares ? 21 : 7))
        throw Error(ErrorKind::kInternal, "wrong sums");
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a caller that takes results gets the error of a communicator that failed") {
  ThreadPool pool(1);
  StepExchange exchange(1, 1, pool, pool);
  const auto comm = make_self_communicator();
  exchange.send({}, {});
  exchange.fetch();
  comm->abort();
  CHECK_THROWS_AS(exchange.take(*comm), Error);
}
