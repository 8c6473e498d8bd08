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
  /// What the front exits with: 0; 75 stopped early with a checkpoint; the error's own kind (1-6);
  /// 128 + N where signal N killed the rank; 130 after a second Ctrl-C; a foreign program's own
  /// code.
  int exit_code = 0;
  int world_size = 0;
  int restarts = 0;       ///< that were made
  int stopped_ranks = 0;  ///< others that were still there and had to be stopped

  // Of the first rank that failed, by this machine's clock; rank -1: nobody's fault in particular.
  int rank = -1;
  std::int64_t pid = 0;
  std::string host;
  std::string reason;      ///< "was killed by SIGSEGV (segmentation fault)"
  std::int64_t step = -1;  ///< last one heard of, -1 = none
  std::string message;     ///< its own words, "" = none sent
  std::string hint;
  std::vector<std::string> context;  ///< innermost first
  /// Of what it printed: at most 20; of a worker of ours 3, and none where it sent a message.
  std::vector<std::string> last_lines;
  std::string log_path;  ///< "" = no file

  /// What the user is told: several lines with a newline at the end, or "" for a job that is done.
  /// Safe for a terminal, whatever the rank printed (base/terminal.h).
  std::string render(const std::string& program = "hgtrain") const;
};

void to_json(nlohmann::json& json, const Verdict& verdict);

}  // namespace hgt
