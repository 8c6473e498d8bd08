#include "hgtrain/wire/frame.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a frame is length, kind, payload, little-endian") {
  CHECK(encode_frame(MessageKind::kStop, "") == std::string("\x01\0\0\0\x11", 5));
  CHECK(encode_frame(MessageKind::kAbort, "oh") == std::string("\x03\0\0\0\x13oh", 7));
}

TEST_CASE("frames survive a stream that arrives byte by byte, and several at once") {
  const std::string stream = encode_frame(MessageKind::kEvent, "first") +
                             encode_frame(MessageKind::kHeartbeat, "") +
                             encode_frame(MessageKind::kStoreSet, std::string(70000, 'x'));
  const std::size_t piece = GENERATE(1u, 7u, 65536u, 1u << 20);
  FrameReader reader;
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < stream.size(); i += piece) {
    reader.feed(std::string_view(stream).substr(i, piece));
    while (auto frame = reader.next()) frames.push_back(std::move(*frame));
  }
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].payload == "first");
  CHECK(frames[1].kind == MessageKind::kHeartbeat);
  CHECK(frames[2].payload.size() == 70000);
}

TEST_CASE("a stream that cannot be frames is refused before anything is held for it") {
  FrameReader reader(1024);
  const std::string bytes =
      GENERATE(std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4),
               std::string("\x01\x04\0\0", 4), std::string("\x01\0\0\0\x63", 5),
               std::string("GET / HTTP/1.1\r\n"));
  reader.feed(bytes);
  CHECK_THROWS_AS(reader.next(), Error);
}

TEST_CASE("a message longer than a frame may be is refused by its sender") {
  CHECK_NOTHROW(encode_frame(MessageKind::kEvent, std::string(kMaxFrameBytes - 1, 'x')));
  CHECK_THROWS_AS(encode_frame(MessageKind::kEvent, std::string(kMaxFrameBytes, 'x')), Error);
}
