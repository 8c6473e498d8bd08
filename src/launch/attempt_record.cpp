#include "attempt_record.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "environment.h"
#include "lines.h"

namespace hgt {
namespace {

/// Which other failure may have come first, by the clocks of the hosts; "" if none.
std::string doubt_about(const AttemptRecord& attempt, const Failure& failure) {
  const Failure* const rival = rival_of(failure, attempt.failures);
  if (!rival) return "";
  const std::string& host = attempt.hosts[static_cast<std::size_t>(rival->host)].link->host();
  return fmt::format(
      "{}{} failed within {:.1f} ms of it, and the hosts' clocks are known to {:.1f} ms: it "
      "may have been the first",
      rival->culprit(), rival->rank >= 0 ? " on " + host : "",
      static_cast<double>(std::abs(rival->at_ns - failure.at_ns)) * 1e-6,
      static_cast<double>(rival->uncertainty_ns + failure.uncertainty_ns) * 1e-6);
}

bool is_on_lost_host(const AttemptRecord& attempt, const RankView& rank) {
  return std::ranges::any_of(attempt.failures, [&](const auto& entry) {
    const Failure& failure = entry.second;
    return failure.rank < 0 && static_cast<std::size_t>(failure.host) == rank.host;
  });
}

/// Whether the rank still ran when the failure happened.
bool outlived(const AttemptRecord& attempt, const RankView& rank, const Failure& failure) {
  if (rank.pulse.rank == failure.rank || is_on_lost_host(attempt, rank)) return false;
  if (!rank.end || rank.end->lost_guard) return true;
  // By the clocks of two hosts, what the launcher's signal ended may seem to have come first.
  const std::int64_t doubt_ns =
      rank.end->signalled ? failure.uncertainty_ns + rank.end_uncertainty_ns : 0;
  return rank.end->at_ns + doubt_ns >= failure.at_ns;
}

/// Whether the rank ended with an error of its own, too: before it was stopped, or with the exit
/// code of the first one, because the signal may have come while it was ending. A worker of hgtrain
/// is told to end with an error.
bool failed_too(const AttemptRecord& attempt, const RankView& rank, const Failure& failure) {
  if (attempt.spec.own_workers || rank.pulse.rank == failure.rank) return false;
  return attempt.failures.contains(rank.pulse.rank) ||
         (rank.end && WIFEXITED(rank.end->wait_status) &&
          WEXITSTATUS(rank.end->wait_status) == failure.exit_code);
}

/// What to do about a failure of PyTorch's connections between hosts; "" if `lines` name none.
/// `interface`: of the network in which the hosts reach each other.
std::string hint_for_torch(const std::vector<std::string>& lines, const std::string& interface) {
  const auto has = [&](std::string_view text) {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  if (has("connectFullMesh failed") && has("127."))
    return fmt::format(
        "the host's own name gives Gloo its loopback address, where other hosts cannot reach it: "
        "write iface={0} into the hostfile, or use --env GLOO_SOCKET_IFNAME={0}",
        interface.empty() ? "NAME" : interface);
  if (has("client socket has timed out"))
    return "a firewall between the hosts may close the ports that programs choose; hgtrain doctor "
           "--links, with these hosts, measures each way";
  return "";
}

void describe_rank(const AttemptRecord& attempt, const Failure& failure, Verdict& out) {
  const JobSpec& spec = attempt.spec;
  const RankView& rank = attempt.ranks[static_cast<std::size_t>(failure.rank)];
  out.pid = rank.pid;
  out.host = attempt.link_of(rank).host();
  out.step = rank.pulse.greeted ? rank.pulse.last.step : -1;
  if (out.message.empty()) out.message = rank.error_message;
  if (!spec.own_workers && out.hint.empty() && !attempt.port_user.empty())
    out.hint = fmt::format(
        "{} listens on MASTER_PORT {} and does not belong to this job; rank 0 could not; "
        "--master_port "
        "chooses another",
        attempt.port_user, attempt.master_port);
  if (!spec.own_workers && out.hint.empty() && attempt.hosts.size() > 1)
    out.hint = hint_for_torch(rank.last_lines, attempt.hosts[rank.host].interface);
  if (!spec.own_workers)
    out.last_lines = rank.last_lines;
  else if (failure.message.empty())  // its own words say it better than its log
    out.last_lines = brief(rank.last_lines);
  out.log_path = log_file(spec, failure.rank);
  if (attempt.hosts.size() > 1 && !out.log_path.empty())
    out.log_path = out.host + ":" + out.log_path;
}

void describe_host(const AttemptRecord& attempt, const Failure& failure, Verdict& out) {
  out.host = failure.host_name;
  for (const auto& [key, other] : attempt.failures)
    if (other.rank < 0 && &other != &failure) out.lost_hosts.push_back(other.host_name);
}

void describe_failure(const AttemptRecord& attempt, const Failure& failure, Verdict& out) {
  out.outcome = Verdict::Outcome::kFailed;
  out.exit_code = failure.exit_code;
  out.rank = failure.rank;
  out.reason = failure.reason.empty() ? "failed" : failure.reason;
  out.message = failure.message;
  out.hint = failure.hint;
  out.context = failure.context;
  out.doubt = doubt_about(attempt, failure);
  if (failure.rank < 0)
    describe_host(attempt, failure, out);
  else
    describe_rank(attempt, failure, out);
  for (const RankView& rank : attempt.ranks) {
    if (failed_too(attempt, rank, failure))
      ++out.failed_ranks;
    else if (outlived(attempt, rank, failure))
      ++out.stopped_ranks;
  }
}

void describe_stop(const AttemptRecord& attempt, Verdict& out) {
  if (attempt.ended_connecting) {
    out.outcome = Verdict::Outcome::kStopped;
    out.exit_code = kExitStoppedEarly;
    out.reason = fmt::format("stopped by {} while its ranks were connecting", attempt.stopped_by);
    return;
  }
  const bool own_workers = attempt.spec.own_workers;
  const Ended* first = nullptr;  // of the ranks that did not end cleanly
  for (const RankView& rank : attempt.ranks) {
    if (!rank.end) continue;
    if (exit_code_of(*rank.end) == kExitStoppedEarly) out.exit_code = kExitStoppedEarly;
    if (!is_clean(*rank.end, own_workers) && (!first || rank.end->at_ns < first->at_ns))
      first = &*rank.end;
  }
  if (first) {
    out.exit_code = exit_code_of(*first);
    // Our own SIGKILL is no news: what counts is why it was sent.
    if (out.exit_code == 128 + SIGKILL && attempt.stop_signal)
      out.exit_code = 128 + attempt.stop_signal;
  }
  if (out.exit_code == 0) return;
  out.outcome = Verdict::Outcome::kStopped;
  out.reason = attempt.stop_signal ? "stopped by " + attempt.stopped_by : "stopped early";
  if (first && own_workers) out.reason += "; not every rank left in time, so some were killed";
}

}  // namespace

bool obeys_commands(const AttemptRecord& attempt, const RankView& rank) {
  return attempt.spec.own_workers || rank.pulse.greeted;
}

Verdict verdict_on(const AttemptRecord& attempt) {
  Verdict out;
  out.world_size = attempt.spec.num_workers;
  if (const Failure* failure = first_failure(attempt.failures))
    describe_failure(attempt, *failure, out);
  else
    describe_stop(attempt, out);
  return out;
}

namespace {

const char* state_of(const RankView& rank) {
  if (rank.is_gone || rank.end) return "ended";
  return rank.pid == 0 ? "starting" : "running";
}

nlohmann::json status_of(const RankView& rank, const std::string& host, std::int64_t now_ns) {
  nlohmann::json out{
      {"rank", rank.pulse.rank}, {"host", host}, {"pid", rank.pid}, {"state", state_of(rank)}};
  if (!rank.pulse.greeted) return out;  // it sends no heartbeats
  const Heartbeat& beat = rank.pulse.last;
  out.update({{"step", beat.step},
              {"phase", beat.phase},
              {"action", beat.action},
              {"waits_in", beat.waits_in},
              {"heartbeat_age_s", static_cast<double>(now_ns - rank.pulse.heard_ns) * 1e-9}});
  return out;
}

}  // namespace

nlohmann::json status_of(const AttemptRecord& attempt, std::int64_t now_ns) {
  auto hosts = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (const HostRanks& host : attempt.hosts)
    hosts.push_back(
        {{"name", host.spec.name}, {"first_rank", host.first_rank}, {"num_ranks", host.num_ranks}});
  for (const RankView& rank : attempt.ranks)
    ranks.push_back(status_of(rank, attempt.hosts[rank.host].spec.name, now_ns));
  return {{"hosts", std::move(hosts)}, {"ranks", std::move(ranks)}};
}

}  // namespace hgt
