#include "frame_link.h"

#include <catch2/catch.hpp>

#include "agent_host.h"

using namespace hgt;

namespace {

/// Two links on one loop, and what came out of the second.
struct Links {
  Links() {
    to.emplace(io, std::move(stream.in[1]), std::move(stream.out[1]),
               FrameLink::Events{[this](const Frame& frame) { frames.push_back(frame); },
                                 [this](const std::string& why) { ended = why; }});
  }
  void connect() {
    from.emplace(io, std::move(stream.in[0]), std::move(stream.out[0]),
                 FrameLink::Events{[](const Frame&) {}, [](const std::string&) {}});
  }
  void run_until(const std::function<bool()>& condition) {
    while (!condition()) io.run_one();
  }

  asio::io_context io;
  StreamPair stream;
  std::vector<Frame> frames;
  std::optional<std::string> ended;
  std::optional<FrameLink> from, to;
};

}  // namespace

TEST_CASE("messages arrive whole and in order, however long they are") {
  Links links;
  links.connect();
  const std::vector<std::size_t> sizes = {0, 1, 65534, 65535, 65536, 1'000'000, 3};
  for (const std::size_t size : sizes)
    links.from->send(MessageKind::kSpawn, std::string(size, static_cast<char>('a' + size % 26)));
  links.run_until([&] { return links.frames.size() == sizes.size(); });
  for (std::size_t i = 0; i < sizes.size(); ++i)
    CHECK(links.frames[i].payload == std::string(sizes[i], static_cast<char>('a' + sizes[i] % 26)));
}

TEST_CASE("a heartbeat overtakes the output that waits, and so does the store") {
  Links links;
  links.connect();
  const std::string block(60'000, 'x');
  for (int i = 0; i < 1000; ++i) links.from->send(MessageKind::kOutput, block);
  links.from->send(MessageKind::kAgentStoreSet, "k");
  links.from->send(MessageKind::kGone, "");
  links.from->send(MessageKind::kRankHeartbeat, "");
  links.run_until([&] { return links.frames.size() == 1003; });
  const auto index_of = [&](MessageKind kind) {
    return std::find_if(links.frames.begin(), links.frames.end(),
                        [&](const Frame& frame) { return frame.kind == kind; }) -
           links.frames.begin();
  };
  CHECK(index_of(MessageKind::kRankHeartbeat) < 100);  // behind what the socket holds
  CHECK(index_of(MessageKind::kAgentStoreSet) == index_of(MessageKind::kRankHeartbeat) + 1);
  CHECK(index_of(MessageKind::kGone) == 1002);
}

TEST_CASE("the end of the stream is reported once, and what is sent after it is dropped") {
  Links links;
  links.connect();
  links.from->send(MessageKind::kSpawn, "last");
  links.from->close();
  links.run_until([&] { return links.ended.has_value(); });
  CHECK(links.frames.size() == 1);
  CHECK_FALSE(links.to->is_open());
  links.to->send(MessageKind::kSpawn, "nobody reads this");
}

TEST_CASE("a peer that sends no frames, or parts without end, is cut off") {
  Links links;
  const std::string bytes =
      GENERATE(std::string("GET / HTTP/1.1\r\n"), encode_frame(MessageKind::kPart, ""),
               encode_frame(MessageKind::kSpawn, std::string(70'000, 'x')));
  REQUIRE(write(links.stream.out[0].get(), bytes.data(), bytes.size()) == std::ssize(bytes));
  links.run_until([&] { return links.ended.has_value(); });
  CHECK(links.frames.empty());
}

TEST_CASE("parts that never become a message are held up to a bound") {
  Links links;
  links.connect();
  const std::string part = static_cast<char>(MessageKind::kSpawn) + std::string(60'000, 'x');
  for (std::size_t bytes = 0; bytes < FrameLink::kMaxPartBytes + 60'000; bytes += 60'000)
    links.from->send(MessageKind::kPart, part);
  links.run_until([&] { return links.ended.has_value(); });
  CHECK(links.ended == "a message between the launcher and an agent is damaged");
}
