#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/wire/frame.h"

namespace hgt {

/// Another command's connection to the launcher of a run (JobSocket). Calls block. Each throws
/// Error(kPeer) if the launcher sends nothing for 10 s, or an answer that cannot be understood. If
/// the launcher ends meanwhile, that is not an error: run.json says how the run ended.
class JobClient {
 public:
  /// nullopt if no launcher listens in this folder of a run: the run has ended, or runs on another
  /// machine that shares the folder. Error(kConfig) if this user may not connect.
  static std::optional<JobClient> connect(const std::string& folder);
  JobClient(JobClient&& other) noexcept;
  ~JobClient();

  /// The fields of docs/launch.md; nullopt if the launcher has ended.
  std::optional<nlohmann::json> status();
  /// Asks the job to stop, as SIGTERM does, or with `now` to kill its ranks.
  void stop(bool now);
  /// Calls `show` with what the launcher's console shows from now on, until the launcher has ended.
  /// The first call comes at once, with an empty text. `left_out` counts the bytes before the text
  /// that were dropped because this process was too slow. Returns whether the end is complete.
  using Show = std::function<void(bool is_error, std::uint64_t left_out, std::string_view text)>;
  bool watch_console(const Show& show);
  /// Waits until the launcher has ended, or at most `limit_ms` (-1: for however long it
  /// takes). Returns whether it has.
  bool wait_for_end(int limit_ms = -1);

 private:
  class Stream;
  explicit JobClient(std::unique_ptr<Stream> stream);
  std::optional<Frame> ask(std::string_view request, MessageKind answer);
  std::unique_ptr<Stream> stream_;
};

}  // namespace hgt
