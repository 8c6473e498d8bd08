#include "hgtrain/base/task_pool.h"

#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("one thread runs tasks in their order; a future has what its task returned or threw") {
  TaskPool pool(1);
  std::string order;
  const auto first = pool.run([&] { order += 'a'; });
  auto failing = pool.run([&]() -> int { throw std::runtime_error("no"); });
  auto last = pool.run([&] {
    order += 'b';
    return 7;
  });
  CHECK(last.get() == 7);
  CHECK(order == "ab");
  CHECK_THROWS_AS(failing.get(), std::runtime_error);
}
