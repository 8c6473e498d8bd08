#include "link_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

OwnedFd connected_to(int port) {
  OwnedFd out(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return out;
}

}  // namespace

TEST_CASE("only a peer that knows the token can measure a link") {
  const std::string address = GENERATE("127.0.0.1", "::1");
  const LinkListener listener(address, "secret");
  CHECK_THROWS_AS(measure_link(address, listener.port(), "wrong!"), Error);
  const LinkFigures figures = measure_link(address, listener.port(), "secret");
  CHECK(figures.round_trip_ns > 0);
  CHECK(figures.bytes_per_second > 0);
  CHECK_THROWS_AS(measure_link(address, listener.port(), "secret"), Error);  // once
}

TEST_CASE("strangers who say nothing, or a part of the token, do not keep a peer out") {
  const LinkListener listener("127.0.0.1", "secret");
  std::vector<OwnedFd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connected_to(listener.port()));
    if (i % 2 == 0) REQUIRE(send(strangers.back().get(), "sec", 3, MSG_NOSIGNAL) == 3);
  }
  CHECK(measure_link("127.0.0.1", listener.port(), "secret").bytes_per_second > 0);
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
