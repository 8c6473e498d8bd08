#include "data_comparison.h"

#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/wire/control.h"

using namespace hgt;

namespace {

auto content(std::uint64_t hash) {
  return [hash](const std::stop_token&) { return hash; };
}

}  // namespace

TEST_CASE("a host whose data differ from host 0's finds out while it trains") {
  MemoryStore store;
  const DataComparison second(store, 1, 3, content(8));
  CHECK_FALSE(second.differs());  // host 0 still reads
  const DataComparison first(store, 0, 3, content(7)), third(store, 2, 3, content(7));
  while (!second.differs()) std::this_thread::yield();
  CHECK_FALSE(first.differs());
  CHECK_FALSE(third.differs());
  CHECK_FALSE(first.are_all_same());
}

TEST_CASE("host 0 learns that all hosts have its data") {
  MemoryStore store;
  const DataComparison first(store, 0, 3, content(7)), second(store, 1, 3, content(7));
  CHECK_FALSE(first.are_all_same());
  const DataComparison third(store, 2, 3, content(7));
  while (!first.are_all_same()) std::this_thread::yield();
}

TEST_CASE("a run may end before its data has been read") {
  MemoryStore store;
  DataComparison(store, 1, 2, [](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
    return std::uint64_t{7};
  });
  CHECK_THROWS(store.get("the data of host 0", std::chrono::milliseconds(0)));
}
