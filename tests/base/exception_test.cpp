#include "hgtrain/base/exception.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("an error in one line names what it is about") {
  CHECK(message_in_context(Error(ErrorKind::kData, "it is damaged", "a hint")) == "it is damaged");
  CHECK(message_in_context(Error(ErrorKind::kData, "it is damaged").in("file").in("rank 1")) ==
        "it is damaged (file, rank 1)");
}

TEST_CASE("what the system refuses is not a bug, and the hint names the limit") {
  const Error memory = error_from(std::bad_alloc());
  CHECK(memory.kind() == ErrorKind::kDevice);
  CHECK_THAT(memory.hint(), Catch::Contains("ulimit -v"));
  const Error thread = error_from(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(thread.kind() == ErrorKind::kDevice);
  CHECK_THAT(thread.message(), Catch::Contains("a thread, a process or memory: "));
  CHECK_THAT(thread.hint(), Catch::Contains("ulimit -u") && Catch::Contains("pids.max"));
  const auto error_of = [](std::errc code) {
    return error_from(std::system_error(std::make_error_code(code), "pipe"));
  };
  CHECK_THAT(error_of(std::errc::not_enough_memory).hint(), Catch::Contains("ulimit -v"));
  CHECK_THAT(error_of(std::errc::too_many_files_open).hint(), Catch::Contains("ulimit -n"));
  CHECK_THAT(error_of(std::errc::too_many_files_open_in_system).hint(),
             Catch::Contains("ulimit -n"));
  CHECK(error_of(std::errc::io_error).kind() == ErrorKind::kDevice);
  CHECK(error_of(std::errc::io_error).message() ==
        "the system refused a call: pipe: Input/output error");
}

TEST_CASE("errno in Asio's own category is the same refusal") {
  class AsioSystem : public std::error_category {
    const char* name() const noexcept override { return "asio.system"; }
    std::string message(int) const override { return "Too many open files"; }
  } const category;
  const Error error = error_from(std::system_error(EMFILE, category, "signal_set_service pipe"));
  CHECK(error.kind() == ErrorKind::kDevice);
  CHECK(error.message() ==
        "the system refused another file descriptor: signal_set_service pipe: Too many open files");
  CHECK_THAT(error.hint(), Catch::Contains("ulimit -n"));
}

TEST_CASE("a file that the system does not show is named") {
  const Error error = error_from(std::filesystem::filesystem_error(
      "status", "run/x", std::make_error_code(std::errc::permission_denied)));
  CHECK(error.kind() == ErrorKind::kData);
  CHECK(error.message() == "cannot access run/x: Permission denied");
}

TEST_CASE("a file that cannot be examined because resources are short is not damaged data") {
  const auto error_of = [](std::errc code) {
    return error_from(
        std::filesystem::filesystem_error("status", "run/x", std::make_error_code(code)));
  };
  for (const std::errc code :
       {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system}) {
    CHECK(error_of(code).kind() == ErrorKind::kDevice);
    CHECK_THAT(error_of(code).message(), Catch::Contains("run/x"));
    CHECK_THAT(error_of(code).hint(), Catch::Contains("ulimit -n"));
  }
  CHECK(error_of(std::errc::not_enough_memory).kind() == ErrorKind::kDevice);
  CHECK_THAT(error_of(std::errc::not_enough_memory).hint(), Catch::Contains("ulimit -v"));
}

TEST_CASE("an error stays as it is, and anything else is a bug") {
  const Error error = error_from(Error(ErrorKind::kData, "damaged", "again").in("file"));
  CHECK(error.kind() == ErrorKind::kData);
  CHECK(error.hint() == "again");
  CHECK(error.context() == std::vector<std::string>{"file"});
  CHECK(error_from(std::runtime_error("x")).kind() == ErrorKind::kInternal);
}

TEST_CASE("any other exception that nothing catches is named before the process aborts") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);  // the test program reports it
    report_uncaught_bad_alloc();
    std::thread([] { throw std::runtime_error("a bug"); }).join();
  }
  close(ends[1]);
  std::string text;
  char chunk[256];
  for (ssize_t bytes = 0; (bytes = read(ends[0], chunk, sizeof chunk)) > 0;)
    text.append(chunk, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK_THAT(text, Catch::Contains("std::runtime_error") && Catch::Contains("a bug"));
}

TEST_CASE("a lack of memory that nothing catches ends the process with 3, not with SIGABRT") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    report_uncaught_bad_alloc();
    std::thread([] { throw std::bad_alloc(); }).join();
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ErrorKind::kDevice));
}
