#include "console_queue.h"

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "owned_fd.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// Puts `fd` in place of stdout for as long as it lives.
class StdoutAs {
 public:
  explicit StdoutAs(int fd) : before_(dup(1)) {
    fflush(stdout);
    dup2(fd, 1);
  }
  ~StdoutAs() { dup2(before_.get(), 1); }

 private:
  OwnedFd before_;
};

}  // namespace

TEST_CASE("a file takes everything at once") {
  const TemporaryFolder folder;
  asio::io_context io;
  const OwnedFd file(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0666));
  const std::string text(3 << 20, 'x');
  {
    const StdoutAs stdout_as(file.get());
    ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
    console.write(OutputSink::kOut, text);
    CHECK(console.is_empty());
  }
  CHECK(contents(folder / "out") == text);
}

TEST_CASE("a pipe that nobody empties fills the queue, and never blocks") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const OwnedFd reader(ends[0]), writer(ends[1]);
  asio::io_context io;
  const StdoutAs stdout_as(writer.get());
  ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
  const std::string text = std::string(3 << 20, 'x') + "end";
  console.write(OutputSink::kOut, text);
  CHECK(console.is_full());
  std::string got;
  while (got.size() < text.size()) {
    char buffer[65536];
    const ssize_t bytes = read(reader.get(), buffer, sizeof buffer);
    REQUIRE(bytes > 0);
    got.append(buffer, static_cast<std::size_t>(bytes));
    io.poll();
    io.restart();
  }
  CHECK(got == text);
  CHECK(console.is_empty());
}

TEST_CASE("a console without a reader is reported once, and further output is dropped") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const OwnedFd writer(ends[1]);
  close(ends[0]);
  asio::io_context io;
  int reports = 0;
  {
    const StdoutAs stdout_as(writer.get());
    ConsoleQueue console(io, {[&] { ++reports; }, [](const std::string&) {}});
    console.write(OutputSink::kOut, "a\n");
    console.write(OutputSink::kOut, "b\n");
    CHECK(console.is_empty());
  }
  std::signal(SIGPIPE, before);
  CHECK(reports == 1);
}

TEST_CASE(
    "output for which a full disk has no room is dropped and counted, and later output is "
    "written") {
  const TemporaryFolder folder;
  asio::io_context io;
  const OwnedFd full(open("/dev/full", O_WRONLY));
  const OwnedFd file(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0666));
  std::vector<std::string> notices;
  std::string dropped;
  {
    const StdoutAs stdout_as(full.get());
    ConsoleQueue console(
        io, {[] { FAIL("gone"); }, [&](const std::string& text) { notices.push_back(text); }});
    CHECK(console.what_was_dropped().empty());
    console.write(OutputSink::kOut, "a\n");
    console.write(OutputSink::kOut, "b\n");
    dup2(file.get(), 1);
    console.write(OutputSink::kOut, "c\n");
    CHECK(console.is_empty());
    dropped = console.what_was_dropped();
  }
  CHECK(notices.size() == 1);
  CHECK_THAT(notices.at(0), Catch::Contains("stdout cannot be written: No space left on device"));
  CHECK(dropped == "4 bytes of the workers' stdout were dropped");
  CHECK(contents(folder / "out") == "c\n");
}
