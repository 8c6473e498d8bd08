#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent_messages.h"
#include "hang.h"

namespace hgt {

/// The failure of a rank, known from its own report, from how its process ended, or from both; or
/// the failure of a whole host.
struct Failure {
  int rank = 0;           ///< -1: a host failed
  int host = 0;           ///< index of that host, or of the rank's host
  std::string host_name;  ///< if a host failed
  std::int64_t at_ns = 0;
  std::int64_t uncertainty_ns = 0;  ///< of at_ns, because the host's clock is not known exactly
  int exit_code = 1;
  bool by_peer = false;    ///< it only noticed that another rank was gone
  bool permanent = false;  ///< a restart would end the same way
  std::string reason;
  std::string message;
  std::string hint;
  std::vector<std::string> context;

  /// Orders failures: a rank's number, or -1 - a host's index.
  int key() const { return rank >= 0 ? rank : -1 - host; }
  /// "rank 3", or "host b".
  std::string culprit() const;
};

/// The failure in a `failed` event, still without a reason.
Failure failure_from_event(int rank, const nlohmann::json& body);

Failure failure_from_hang(const Hang& hang);

/// The failure of a rank that did not end cleanly without the launcher's doing.
Failure failure_from_end(const Ended& end, bool own_workers);

/// By the shell's convention: 128 + N if signal N ended the program.
int exit_code_of(const Ended& end);
/// Whether the rank ended as it should; hgtrain's own workers may also stop early.
bool is_clean(const Ended& end, bool own_workers);
/// "exited with code 3", "was killed by SIGSEGV (Segmentation fault)".
std::string reason_of(const Ended& end);
/// A hint if the program was killed by a SIGKILL that the launcher did not send, or if its exit
/// code says that of a program it ran (137, as from a shell); otherwise "".
std::string hint_of(const Ended& end);

/// The message in a file in torchelastic's form ({"message": "..."} or {"message": {"message":
/// "..."}}), which PyTorch's @record writes; "" if there is none.
std::string message_in_error_file(const std::string& path);

/// The failure that the verdict is about: the first one. A rank that only lost a peer is chosen
/// only if there is no other failure.
const Failure* first_failure(const std::map<int, Failure>& failures);
/// A failure on another host that may have come before `first`, given how exactly the hosts' clocks
/// are known; nullptr if there is none.
const Failure* rival_of(const Failure& first, const std::map<int, Failure>& failures);

/// "rank 1 exited with code 9" or "rank 1 failed: MESSAGE", of a Failure or a Verdict. The message
/// of a host says itself what is lost.
template <class Failed>
std::string text_of_failure(const Failed& failed) {
  if (failed.rank < 0 && !failed.message.empty()) return failed.message;
  return failed.culprit() + " " +
         (failed.message.empty() ? failed.reason : "failed: " + failed.message);
}

}  // namespace hgt
