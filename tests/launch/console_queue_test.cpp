#include "console_queue.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/owned_fd.h"

#include "full_pipe.h"
#include "support/failing_file_ops.h"
#include "support/process.h"
#include "support/standing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// Puts `fd` in place of stdout, or of `stream`, for as long as it lives.
class StdoutAs {
 public:
  explicit StdoutAs(int fd, int stream = STDOUT_FILENO) : stream_(stream), before_(dup(stream)) {
    fflush(stdout);
    dup2(fd, stream);
  }
  ~StdoutAs() { dup2(before_.get(), stream_); }

 private:
  const int stream_;
  OwnedFd before_;
};

std::string read_some(int fd) {
  std::string part(65536, '\0');
  const ssize_t bytes = read(fd, part.data(), part.size());
  REQUIRE(bytes > 0);
  part.resize(static_cast<std::size_t>(bytes));
  return part;
}

/// What a reader gets until all that waited is written, and a line after that.
std::string read_all(FullPipe& pipe, asio::io_context& io, const ConsoleQueue& console) {
  std::string got;
  while (console.waiting_bytes() > 0) {
    got += read_some(pipe.reader());
    io.poll();
    io.restart();
  }
  std::cerr << "read\n";
  while (!got.ends_with("read\n")) got += read_some(pipe.reader());
  return got.substr(got.find_first_not_of('.'));
}

}  // namespace

TEST_CASE(
    "a file on a disk that stands still blocks nobody, and gets all in the order it was said") {
  const TemporaryFolder folder;
  asio::io_context io;
  const OwnedFd file(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0666));
  const std::string text(3 << 20, 'x');
  StandingFileOps disk;
  {
    const FileOpsOverride override(disk);
    const StdoutAs stdout_as(file.get());
    const StdoutAs stderr_as(file.get(), STDERR_FILENO);
    ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
    console.write(OutputSink::kOut, text);
    std::cerr << "said\n";
    console.write(OutputSink::kOut, "last\n");
    CHECK(console.is_full());
    CHECK(contents(folder / "out").empty());
    disk.go_on();
    while (console.waiting_bytes() > 0) io.run_one();
    CHECK(contents(folder / "out") == text + "said\nlast\n");
    console.write(OutputSink::kOut, "later\n");
  }
  CHECK(contents(folder / "out") == text + "said\nlast\nlater\n");
}

TEST_CASE("a disk without room drops what it does not take, and that is counted") {
  const TemporaryFolder folder;
  asio::io_context io;
  const OwnedFd file(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0666));
  std::vector<std::string> notices;
  const StdoutAs stdout_as(file.get());
  ConsoleQueue console(
      io, {[] { FAIL("gone"); }, [&](const std::string& text) { notices.push_back(text); }});
  {
    FailingFileOps full(0, ENOSPC);
    const FileOpsOverride override(full);
    console.write(OutputSink::kOut, "a\n");
    while (console.waiting_bytes() > 0) io.run_one();
  }
  io.restart();
  console.write(OutputSink::kOut, "b\n");
  while (console.waiting_bytes() > 0) io.run_one();
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], Catch::Contains("stdout cannot be written: No space left on device"));
  CHECK(console.what_was_dropped() == "2 bytes of stdout were dropped");
  CHECK(contents(folder / "out") == "b\n");
}

TEST_CASE("a file that takes the place of stderr later is written by the thread, too") {
  const TemporaryFolder folder;
  asio::io_context io;
  const OwnedFd memory(memfd_create("stderr", MFD_CLOEXEC));
  const OwnedFd file(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0666));
  StandingFileOps disk;
  {
    const FileOpsOverride override(disk);
    const StdoutAs stderr_as(memory.get(), STDERR_FILENO);
    ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
    std::cerr << "before\n";
    dup2(file.get(), STDERR_FILENO);
    console.look_again();
    std::cerr << "after\n";
    CHECK(console.waiting_bytes() == 6);
    disk.go_on();
  }
  CHECK(contents(folder / "out") == "after\n");
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
    got += read_some(reader.get());
    io.poll();
    io.restart();
  }
  CHECK((fcntl(writer.get(), F_GETFL) & O_NONBLOCK) == 0);  // others may share it
  CHECK(got == text);
  CHECK(console.waiting_bytes() == 0);
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
    CHECK(console.waiting_bytes() == 0);
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
    CHECK(console.waiting_bytes() == 0);
    dropped = console.what_was_dropped();
  }
  CHECK(notices.size() == 1);
  CHECK_THAT(notices.at(0), Catch::Contains("stdout cannot be written: No space left on device"));
  CHECK(dropped == "4 bytes of stdout were dropped");
  CHECK(contents(folder / "out") == "c\n");
}

TEST_CASE("a terminal that nobody reads never blocks, and stays blocking for others") {
  const OwnedFd screen(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(grantpt(screen.get()) == 0);
  REQUIRE(unlockpt(screen.get()) == 0);
  const OwnedFd terminal(open(ptsname(screen.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  asio::io_context io;
  const StdoutAs stdout_as(terminal.get());
  ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "line " + std::to_string(i) + '\n';
  console.write(OutputSink::kOut, text);
  std::string got;
  while (!got.ends_with("line 9999\r\n")) {
    got += read_some(screen.get());
    io.poll();
    io.restart();
  }
  std::erase(got, '\r');
  CHECK(got == text);
  CHECK((fcntl(terminal.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("what this process prints waits for its reader, in order with the workers' stderr") {
  FullPipe pipe;
  asio::io_context io;
  const StdoutAs stderr_as(pipe.writer(), STDERR_FILENO);
  ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
  std::cerr << "one" << ' ' << 1 << '\n';
  console.write(OutputSink::kErr, "two\n");
  std::cerr << "three\n";
  CHECK(read_all(pipe, io, console) == "one 1\ntwo\nthree\nread\n");
}

TEST_CASE("lines that nobody reads for long are left out and counted, but not the last ones") {
  FullPipe pipe;
  asio::io_context io;
  const StdoutAs stderr_as(pipe.writer(), STDERR_FILENO);
  ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
  const std::string line(1023, 'x');
  for (std::size_t i = 0; i < 2 * ConsoleQueue::kMostUnread / 1024; ++i)
    std::cerr << "\rprogress" << line.substr(0, 100) << '\r' << line << '\n';
  CHECK(console.waiting_bytes() < ConsoleQueue::kMostUnread + 4096);
  console.keep_last_lines();
  std::cerr << "the verdict\n";
  const std::string got = read_all(pipe, io, console);
  const auto shown = std::ranges::count(got, '\n') - 3;
  CHECK_THAT(got, Catch::EndsWith(fmt::format(
                      "x\nhgtrain: {} lines are missing here, because nobody read them in time\n"
                      "the verdict\nread\n",
                      2 * ConsoleQueue::kMostUnread / 1024 - static_cast<std::size_t>(shown))));
}

TEST_CASE("after lines were left out, all are shown again once those that waited are read") {
  FullPipe pipe;
  asio::io_context io;
  const StdoutAs stderr_as(pipe.writer(), STDERR_FILENO);
  ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
  std::cerr << std::string(ConsoleQueue::kMostUnread + 1, 'x') << '\n'
            << "two\n"
            << "three\n";
  CHECK_THAT(read_all(pipe, io, console),
             Catch::EndsWith("x\nhgtrain: 2 lines are missing here, because nobody read them in "
                             "time\nread\n"));
}

TEST_CASE("if nobody reads what this process prints any more, only output of workers reports it") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  FullPipe pipe;
  pipe.close_reader();
  asio::io_context io;
  int reports = 0;
  {
    const StdoutAs stderr_as(pipe.writer(), STDERR_FILENO);
    ConsoleQueue console(io, {[&] { ++reports; }, [](const std::string&) { FAIL("failed"); }});
    std::cerr << "a\n"
              << "b\n";
    CHECK(reports == 0);
    console.write(OutputSink::kErr, "c\n");
    console.write(OutputSink::kErr, "d\n");
    CHECK(console.waiting_bytes() == 0);
  }
  std::signal(SIGPIPE, before);
  CHECK(reports == 1);
}

TEST_CASE("after a console is given up, writing to it blocks nobody") {
  FullPipe pipe;
  asio::io_context io;
  const StdoutAs stderr_as(pipe.writer(), STDERR_FILENO);
  {
    ConsoleQueue console(io, {[] {}, [](const std::string&) {}});
    std::cerr << "unread\n";
    console.give_up();
    CHECK(console.waiting_bytes() == 0);
  }
  std::cerr << "after it\n" << std::flush;
  CHECK(std::cerr.good());
}
