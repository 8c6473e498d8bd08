#include "stderr_buffer.h"

#include <fcntl.h>
#include <ostream>
#include <string>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE(
    "output for which a full disk has no room is dropped and counted, and later output is "
    "written") {
  const TemporaryFolder folder;
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  StderrBuffer buffer(fd);
  std::ostream out(&buffer);
  out << "twelve bytes" << std::flush;
  out << '!' << std::flush;
  CHECK(out.good());
  const int file = open((folder / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  dup2(file, fd);
  out << "again\n" << std::flush << "and again\n";
  CHECK(contents(folder / "err") ==
        "\nhgtrain: note: 13 bytes of output were dropped here: No space left on device\n"
        "again\nand again\n");
  close(file);
  close(fd);
}

TEST_CASE("a stream that somebody has made non-blocking loses nothing") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  const std::string text(1 << 20, 'x');
  std::thread writer([&] {
    StderrBuffer buffer(ends[1]);
    std::ostream(&buffer) << text;
    close(ends[1]);
  });
  fcntl(ends[0], F_SETFL, 0);
  std::string got;
  char part[65536];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;)
    got.append(part, static_cast<std::size_t>(bytes));
  writer.join();
  close(ends[0]);
  CHECK(got == text);
}

TEST_CASE("a reader that is gone ends no process") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  close(ends[0]);
  StderrBuffer buffer(ends[1]);
  std::ostream out(&buffer);
  out << "nobody reads this" << std::flush;
  CHECK(out.good());
  close(ends[1]);
}
