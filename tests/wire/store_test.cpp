#include "hgtrain/wire/store.h"

#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;
using namespace std::chrono_literals;

TEST_CASE("a store hands over what another thread sets, also while one waits for it") {
  MemoryStore store;
  std::thread other([&] { store.set("address", "here"); });
  CHECK(store.get("address", 10s) == "here");
  other.join();
  CHECK(store.get("address", 0ms) == "here");
}

TEST_CASE("waiting for a key nobody sets ends with its name") {
  MemoryStore store;
  try {
    store.get("rank3/address", 1ms);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kPeer);
    CHECK(e.message().find("rank3/address") != std::string::npos);
  }
}

TEST_CASE("the end of the job ends the waits") {
  MemoryStore store;
  std::thread other([&] { store.end("rank 2 failed"); });
  CHECK_THROWS_WITH(store.get("x", 10s), Catch::Contains("rank 2 failed"));
  other.join();
  CHECK_THROWS_AS(store.get("x", 10s), Error);
}
