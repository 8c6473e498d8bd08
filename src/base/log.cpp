#include "hgtrain/base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <iterator>

#include <fmt/ranges.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/terminal.h"

namespace hgt {
namespace {

constexpr std::size_t kQueuedLines = 8192;

std::atomic<spdlog::logger*> session_logger = nullptr;

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

LogLevel log_level_from_environment(LogLevel otherwise) {
  const char* const name = std::getenv(kLogVariable);
  if (name == nullptr || *name == '\0') return otherwise;
  const auto found =
      std::find(std::begin(kLogLevelNames), std::end(kLogLevelNames), std::string_view(name));
  if (found == std::end(kLogLevelNames))
    throw Error(ErrorKind::kConfig, fmt::format("{} = {} is not a log level", kLogVariable, name),
                fmt::format("use one of {}", fmt::join(kLogLevelNames, ", ")));
  return static_cast<LogLevel>(found - std::begin(kLogLevelNames));
}

struct LogSession::Parts {
  std::shared_ptr<spdlog::details::thread_pool> pool;  ///< null if it is synchronous
  std::shared_ptr<spdlog::logger> logger;
};

LogSession::LogSession(const std::string& name, LogLevel level, bool asynchronous)
    : parts_(std::make_unique<Parts>()) {
  // The first gmtime() of a process reads the environment, unless this has. The thread must not: it
  // crashes if another one sets a variable meanwhile, as a rank does that opens its GPU.
  ::tzset();
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(std::cerr, /*force_flush=*/true);
  if (asynchronous) {
    parts_->pool = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
    parts_->logger = std::make_shared<spdlog::async_logger>(
        name, std::move(sink), parts_->pool, spdlog::async_overflow_policy::overrun_oldest);
  } else {
    parts_->logger = std::make_shared<spdlog::logger>(name, std::move(sink));
  }
  parts_->logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%eZ %n %l: %v", spdlog::pattern_time_type::utc));
  parts_->logger->set_level(spdlog_level(level));
  session_logger = parts_->logger.get();
}

LogSession::~LogSession() {
  session_logger = nullptr;
  const std::size_t dropped = parts_->pool ? parts_->pool->overrun_counter() : 0;
  parts_.reset();  // writes what is queued
  if (dropped > 0) log_warning("{} lines of this log were dropped: they came too fast", dropped);
}

bool is_logged(LogLevel level) {
  const spdlog::logger* const logger = session_logger;
  return logger ? logger->should_log(spdlog_level(level)) : level >= LogLevel::kInfo;
}

void log_line(LogLevel level, std::string_view text) {
  if (spdlog::logger* const logger = session_logger)
    logger->log(spdlog_level(level), printable(text));
  else
    tell("{}\n", text);
}

}  // namespace hgt
