#include "stop_stages.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/log.h"
#include "hgtrain/wire/messages.h"

#include "guard.h"

namespace hgt {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAbortLimit{5'000};  // from `abort` to what is next
constexpr milliseconds kUnkillableLimit{5'000};

/// What the log says, by Stage.
constexpr const char* kStageTexts[] = {"running",
                                       "stopping: every rank is to save and end",
                                       "aborting: every rank is to end",
                                       "sending SIGTERM to every rank",
                                       "sending SIGKILL to every rank",
                                       "killing the guards",
                                       "all ranks have ended"};

}  // namespace

StopStages::StopStages(asio::io_context& io, const AttemptRecord& attempt,
                       std::function<void(Stage)> entered)
    : attempt_(attempt), ranks_(attempt), entered_(std::move(entered)), timer_(io) {}

void StopStages::then(Stage next, milliseconds after) {
  next_ = next;
  timer_.expires_after(after);
  timer_.async_wait([this, next](const std::error_code& error) {
    if (!error) advance(next);
  });
}

void StopStages::advance(Stage next) {
  if (next <= stage_) return;
  stage_ = next;
  log_info("{}", kStageTexts[static_cast<std::size_t>(next)]);
  entered_(next);
  const JobSpec& spec = attempt_.spec;
  switch (next) {
    case Stage::kRunning:
      return;
    case Stage::kStopping:
      return ranks_.any_left(true) ? then(Stage::kTerminating, spec.stop_limit)
                                   : then(Stage::kKilling, spec.grace);
    case Stage::kAborting:
      return ranks_.any_left(true) ? abort() : advance(Stage::kTerminating);
    case Stage::kTerminating:
      ranks_.signal_all(SIGTERM);
      ranks_.signal_all(SIGCONT);  // one that is stopped sees SIGTERM only then
      return then(Stage::kKilling, spec.grace);
    case Stage::kKilling:
      ranks_.signal_all(SIGKILL);
      return then(Stage::kKillingGuards, kGuardLimit);
    case Stage::kKillingGuards:
      ranks_.kill_guards();
      return then(Stage::kFinished, unkillable_limit());
    case Stage::kFinished:
      return cancel();
  }
}

std::chrono::nanoseconds StopStages::until_kill() const {
  const auto left = timer_.expiry() - asio::steady_timer::clock_type::now();
  return next_ == Stage::kTerminating ? left + attempt_.spec.grace : left;
}

/// From then to giving up. A host that is silent is not given up before its lease: then it is lost.
milliseconds StopStages::unkillable_limit() const {
  milliseconds out = kUnkillableLimit;
  for (const HostRanks& host : attempt_.hosts)
    out = std::max(out, std::chrono::ceil<milliseconds>(host.link->lease()) + kUnkillableLimit);
  return out;
}

void StopStages::abort() {
  const Failure* const failure = first_failure(attempt_.failures);
  ranks_.command_all(encode_abort(
      failure ? fmt::format("{} {}", failure->culprit(),
                            failure->message.empty() ? failure->reason : failure->message)
              : "the job was stopped by " + attempt_.stopped_by));
  // A rank that does not obey an abort would not obey SIGTERM either.
  then(ranks_.any_left(false) ? Stage::kTerminating : Stage::kKilling,
       std::min(kAbortLimit, attempt_.spec.grace));
}

}  // namespace hgt
