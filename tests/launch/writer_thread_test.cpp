#include "writer_thread.h"

#include <future>
#include <string>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("writes happen in order, off the loop; it says when there is room again") {
  asio::io_context io;
  int rooms = 0;
  std::string written;
  std::promise<void> disk;
  {
    WriterThread logs(io, [&] { ++rooms; });
    logs.add(1, [&] { disk.get_future().wait(); });
    CHECK_FALSE(logs.is_full());
    logs.add(WriterThread::kFullBytes, [&] { written += 'a'; });
    logs.add(5, [&] { written += 'b'; });
    CHECK(logs.is_full());
    io.poll();
    CHECK(rooms == 0);
    disk.set_value();
  }
  CHECK(written == "ab");  // the destructor waits
  io.restart();
  io.run();
  CHECK(rooms == 1);
}

TEST_CASE("whoever waits because it is full is told, however the two threads meet") {
  asio::io_context io;
  int rooms = 0;
  WriterThread writer(io, [&] { ++rooms; });
  for (int round = 0; round < 20'000; ++round) {
    while (!writer.is_full()) writer.add(WriterThread::kFullBytes / 3, [] {});
    io.restart();
    for (const int before = rooms; rooms == before && writer.is_full();) REQUIRE(io.run_one() > 0);
  }
}
