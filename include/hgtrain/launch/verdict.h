#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// How a job ended, and whose fault it was.
struct Verdict {
  enum class Outcome { kDone, kStopped, kFailed };

  Outcome outcome = Outcome::kDone;
  /// The launcher's exit code: 0; 75 if the run stopped early with a checkpoint; the error's own
  /// kind (1-6); 128 + N if signal N killed the rank; 130 after a second Ctrl-C; another program's
  /// own code.
  int exit_code = 0;
  int world_size = 0;
  int restarts = 0;       ///< how many attempts were started after a failure
  int stopped_ranks = 0;  ///< other ranks that still ran and had to be stopped
  int failed_ranks = 0;   ///< other ranks that ended with an error of their own

  // About the first rank that failed, by this machine's clock; rank -1: a whole host failed, or
  // none.
  int rank = -1;
  std::string
      place;  ///< of the rank in the layout: "stage 1, tensor rank 0"; "" = it has the whole model
  std::int64_t pid = 0;
  std::string host;
  std::vector<std::string> lost_hosts;  ///< if `host` was lost: others that were lost after it
  std::string reason;                   ///< "was killed by SIGSEGV (segmentation fault)"
  std::int64_t step = -1;               ///< the last one that it reported, -1 = none
  std::string message;                  ///< the error message that it sent, "" = none
  std::string hint;
  std::vector<std::string> context;  ///< innermost first
  /// The last lines that it printed: at most 20. For a worker of hgtrain, at most 3, and none if it
  /// sent a message.
  std::vector<std::string> last_lines;
  std::string log_path;  ///< "" = no file
  /// Which other rank may have failed first, because the hosts' clocks are not known exactly
  /// enough; "" if the order is certain.
  std::string doubt;

  std::string no_restart;  ///< why the job was not started again although it should; "" = no reason

  /// "rank 3", or "host b": who failed.
  std::string culprit() const;

  /// The message to the user: several lines with a newline at the end, or "" for a job that is
  /// done. Safe for a terminal even if the rank printed control characters (base/terminal.h).
  std::string render(const std::string& program = "hgtrain") const;
};

void to_json(nlohmann::json& json, const Verdict& verdict);

}  // namespace hgt
