#include "failure.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/wire/messages.h"

namespace hgt {
namespace {

/// Whether the same would happen in another attempt.
bool is_permanent(int exit_code) {
  const auto kind = static_cast<ErrorKind>(exit_code);
  return kind == ErrorKind::kConfig || kind == ErrorKind::kDevice || kind == ErrorKind::kData ||
         kind == ErrorKind::kCheck;
}

}  // namespace

std::string Failure::culprit() const {
  return rank >= 0 ? fmt::format("rank {}", rank) : "host " + host_name;
}

Failure failure_from_event(int rank, const nlohmann::json& body) {
  const Error error = error_in(body);
  Failure out;
  out.rank = rank;
  out.at_ns = now_ns();
  out.exit_code = error.exit_code();
  out.by_peer = error.kind() == ErrorKind::kPeer;
  out.permanent = is_permanent(out.exit_code);
  out.message = error.message();
  out.hint = error.hint();
  out.context = error.context();
  return out;
}

Failure failure_from_hang(const Hang& hang) {
  Failure out;
  out.rank = hang.rank;
  out.at_ns = now_ns();
  out.exit_code = static_cast<int>(ErrorKind::kCheck);
  out.reason = hang.all_wait ? "waits, as all ranks do" : "has hung";
  out.message = hang.message;
  out.hint = hang.hint;
  return out;
}

Failure failure_from_end(const Ended& end, bool own_workers) {
  Failure out;
  out.rank = end.rank;
  out.at_ns = end.at_ns;
  out.exit_code = exit_code_of(end);
  if (own_workers) {
    out.by_peer = out.exit_code == static_cast<int>(ErrorKind::kPeer);
    out.permanent = is_permanent(out.exit_code);
  }
  out.reason = reason_of(end);
  out.hint = hint_of(end);
  return out;
}

int exit_code_of(const Ended& end) {
  return WIFSIGNALED(end.wait_status) ? 128 + WTERMSIG(end.wait_status)
                                      : WEXITSTATUS(end.wait_status);
}

bool is_clean(const Ended& end, bool own_workers) {
  const int code = exit_code_of(end);
  return code == 0 || (own_workers && code == kExitStoppedEarly);
}

std::string reason_of(const Ended& end) {
  if (end.lost_guard) return "was killed with its guard process";
  if (!WIFSIGNALED(end.wait_status))
    return fmt::format("exited with code {}", WEXITSTATUS(end.wait_status));
  const int signal = WTERMSIG(end.wait_status);
  const char* name = sigabbrev_np(signal);
  const std::string who = name ? fmt::format("was killed by SIG{} ({})", name, strsignal(signal))
                               : fmt::format("was killed by signal {}", signal);
  if (end.out_of_memory)
    return fmt::format("{}, because memory ran out; it had used {:.1f} GiB", who,
                       static_cast<double>(end.max_rss_kib) / (1 << 20));
  return WCOREDUMP(end.wait_status) ? who + ", core dumped" : who;
}

std::string hint_of(const Ended& end) {
  if (end.lost_guard || exit_code_of(end) != 128 + SIGKILL) return "";
  const char* const less = "use fewer workers or a smaller micro-batch";
  return end.out_of_memory ? less
                           : fmt::format("most often, memory ran out (see `dmesg`): {}", less);
}

std::string message_in_error_file(const std::string& path) {
  try {
    const nlohmann::json json = try_parse_json<nlohmann::json>(read_file(path, 1 << 20));
    const nlohmann::json message =
        json.is_object() ? json.value("message", nlohmann::json()) : json;
    if (message.is_string()) return message.get<std::string>();
    if (message.is_object() && message.contains("message") && message["message"].is_string())
      return message["message"].get<std::string>();
  } catch (const Error&) {
    // There is none: the program does not write one.
  }
  return "";
}

const Failure* first_failure(const std::map<int, Failure>& failures) {
  const auto it =
      std::min_element(failures.begin(), failures.end(), [](const auto& a, const auto& b) {
        return std::tie(a.second.by_peer, a.second.at_ns) <
               std::tie(b.second.by_peer, b.second.at_ns);
      });
  return it == failures.end() ? nullptr : &it->second;
}

const Failure* rival_of(const Failure& first, const std::map<int, Failure>& failures) {
  const auto it = std::find_if(failures.begin(), failures.end(), [&](const auto& entry) {
    const Failure& other = entry.second;
    return other.host != first.host && other.by_peer == first.by_peer &&
           std::abs(other.at_ns - first.at_ns) <= other.uncertainty_ns + first.uncertainty_ns;
  });
  return it == failures.end() ? nullptr : &it->second;
}

}  // namespace hgt
