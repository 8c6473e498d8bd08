#include "link_probe.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("only a peer that knows the token can measure a link") {
  const std::string address = GENERATE("127.0.0.1", "::1");
  const LinkListener listener(address, "secret");
  CHECK_THROWS_AS(measure_link(address, listener.port(), "wrong!"), Error);
  const LinkFigures figures = measure_link(address, listener.port(), "secret");
  CHECK(figures.round_trip_ns > 0);
  CHECK(figures.bytes_per_second > 0);
  CHECK_THROWS_AS(measure_link(address, listener.port(), "secret"), Error);  // once
}

TEST_CASE("a link that cannot be measured says why") {
  int port = 0;
  {
    const LinkListener listener("127.0.0.1", "secret");
    port = listener.port();
  }
  CHECK_THROWS_WITH(
      measure_link("127.0.0.1", port, "secret"),
      Catch::Contains("cannot connect to 127.0.0.1 port") && Catch::Contains("refused"));
  CHECK_THROWS_WITH(measure_link("name", 1, "secret"), Catch::Contains("'name' is not an address"));
  CHECK_THROWS_WITH(LinkListener("203.0.113.1", "secret"), Catch::Contains("cannot listen at"));
}
