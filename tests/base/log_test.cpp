#include "hgtrain/base/log.h"

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <mutex>
#include <sstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// What is written to std::cerr while it lives.
class Captured {
 public:
  Captured() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~Captured() { std::cerr.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* const before_;
};

LogLevel level_of(const char* name) {
  ::setenv(kLogVariable, name, 1);
  const LogLevel level = log_level_from_environment(LogLevel::kWarning);
  ::unsetenv(kLogVariable);
  return level;
}

}  // namespace

TEST_CASE("HGTRAIN_LOG names the level") {
  CHECK(log_level_from_environment(LogLevel::kInfo) == LogLevel::kInfo);
  CHECK(level_of("") == LogLevel::kWarning);
  CHECK(level_of("debug") == LogLevel::kDebug);
  CHECK(level_of("off") == LogLevel::kOff);
  CHECK_THROWS_WITH(level_of("loud"), "HGTRAIN_LOG = loud is not a log level");
  ::unsetenv(kLogVariable);
}

TEST_CASE("a line has its time, the name of the process and its level") {
  for (const bool asynchronous : {false, true}) {
    const Captured captured;
    {
      const LogSession log("rank 3", LogLevel::kInfo, asynchronous);
      log_debug("not {}", "this");
      log_info("step {}", 7);
      log_warning("a {}", "warning");
    }
    CHECK_THAT(
        captured.text(),
        Catch::Matches(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z rank 3 info: step 7\n)"
                       R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z rank 3 warning: a warning\n)"));
  }
}

TEST_CASE("what a terminal would take for a command is written out") {
  const Captured captured;
  {
    const LogSession log("rank 0", LogLevel::kInfo, false);
    log_info("\x1b[31mred");
  }
  CHECK_THAT(captured.text(), Catch::EndsWith(" rank 0 info: \\u001b[31mred\n"));
}

TEST_CASE(
    "the thread that writes the lines need not read the environment, which others may change") {
  ::setenv("TZ", "HERE0", 1);
  {
    const LogSession log("rank 0", LogLevel::kInfo, true);
    CHECK(std::string(::tzname[0]) == "HERE");
  }
  ::unsetenv("TZ");
  ::tzset();
}

TEST_CASE("without a session, lines are written as they are") {
  const Captured captured;
  log_debug("not this");
  log_info("step {}", 7);
  CHECK(captured.text() == "step 7\n");
}

TEST_CASE("off writes nothing") {
  const Captured captured;
  {
    const LogSession log("rank 0", LogLevel::kOff, true);
    log_warning("a warning");
  }
  CHECK(captured.text().empty());
}

TEST_CASE("the last line counts those that were dropped because they came too fast") {
  /// Takes nothing while `mutex` is locked.
  struct Gate : public std::stringbuf {
    std::streamsize xsputn(const char* text, std::streamsize size) override {
      const std::lock_guard lock(mutex);
      return std::stringbuf::xsputn(text, size);
    }
    std::mutex mutex;
  } gate;
  std::streambuf* const before = std::cerr.rdbuf(&gate);
  {
    const LogSession log("rank 0", LogLevel::kInfo, true);
    gate.mutex.lock();
    for (int i = 0; i < 10'000; ++i) log_info("line {}", i);
    gate.mutex.unlock();
  }
  std::cerr.rdbuf(before);
  std::istringstream lines(gate.str());
  std::string last;
  std::int64_t written = -1;  // without the last
  for (std::string line; std::getline(lines, line); last = line) ++written;
  CHECK(written < 10'000);
  CHECK(last ==
        fmt::format("{} lines of this log were dropped: they came too fast", 10'000 - written));
}
