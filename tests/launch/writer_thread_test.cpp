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
