#include "agent_link.h"

#include <memory>

#include <asio/post.hpp>
#include <catch2/catch.hpp>

#include "agent_host.h"
#include "merged_output.h"

using namespace hgt;

TEST_CASE("a link that was closed can be destroyed by what is queued on the loop then") {
  asio::io_context io;
  StreamPair stream;
  MergedOutput console(io, {[](OutputSink::Stream, std::string_view) {}, [] { return false; }});
  int events = 0;
  auto link = std::make_unique<AgentLink>(
      io, "b", std::move(stream.in[0]), std::move(stream.out[0]), console,
      AgentLink::Events{[&](AgentLink&, const Frame&) { ++events; },
                        [&](const std::string&) { ++events; },
                        [&](AgentLink&, const std::string&) { ++events; }});
  link->start_lease(std::chrono::milliseconds(1));
  asio::post(io, [&] {
    const std::string frame = encode_frame(MessageKind::kHostFacts, "");
    CHECK(write(stream.out[1].get(), frame.data(), frame.size()) == std::ssize(frame));
    usleep(5'000);  // the lease runs out, too
    link->close();
    asio::post(io, [last = std::move(link)] {});
  });
  io.run();  // ends, because nothing waits for anything
  CHECK(events == 0);
}
