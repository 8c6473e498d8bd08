#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hgt {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// The names that HGTRAIN_LOG and --log_level take: "debug", "info", "warning", "error", "off".
inline constexpr const char* kLogLevelNames[] = {"debug", "info", "warning", "error", "off"};
/// The variable that sets the level of this process and of those that it starts.
inline constexpr const char* kLogVariable = "HGTRAIN_LOG";

/// The level that HGTRAIN_LOG names, or `otherwise` if it is not set. Error(kConfig) if it names
/// none.
LogLevel log_level_from_environment(LogLevel otherwise);

/// While it lives, the lines of this process from `level` up are written to stderr, each with the
/// time (UTC), `name` and its own level. One process makes at most one.
class LogSession {
 public:
  /// If it is `asynchronous`, a thread writes the lines, so that a caller never waits for stderr.
  /// At most 8,192 lines wait; beyond that the oldest are dropped, and the last line says how many.
  LogSession(const std::string& name, LogLevel level, bool asynchronous);
  /// Writes what is queued. No other thread may log any more.
  ~LogSession();
  LogSession(const LogSession&) = delete;
  LogSession& operator=(const LogSession&) = delete;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Whether a line of this level would be written. Without a session, lines of level kInfo and above
/// are written, without time, name and level.
bool is_logged(LogLevel level);
/// May be called from any thread. Control characters are escaped.
void log_line(LogLevel level, std::string_view text);

/// The text is formatted only if the line is logged.
template <class... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (is_logged(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace hgt
