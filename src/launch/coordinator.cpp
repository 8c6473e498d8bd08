#include "coordinator.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/log.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/wire/messages.h"
#include "hgtrain/wire/phases.h"

#include "attempt_record.h"
#include "environment.h"
#include "payload.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kSilent{2};
constexpr std::chrono::seconds kLongEnd{2};  // of the other ranks after a failure

/// "type must be string" of "[json.exception.type_error.302] type must be string".
std::string_view reason_in(std::string_view json_error) {
  const std::size_t end = json_error.find("] ");
  return json_error.substr(end == std::string_view::npos ? 0 : end + 2);
}

}  // namespace

Coordinator::Coordinator(Context context, std::vector<HostRanks> hosts, int number)
    : context_(std::move(context)),
      spec_(context_.spec),
      record_{spec_, static_cast<std::uint32_t>(number), std::move(hosts),
              std::vector<RankView>(static_cast<std::size_t>(spec_.num_workers))},
      stages_(context_.io, record_, [this](Stage stage) { on_stage(stage); }),
      hang_watch_(context_.io, record_, [this](const Hang& hang) { on_hang(hang); }),
      announcement_(context_.io) {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const HostRanks& place = hosts_[host];
    for (int rank = place.first_rank; rank < place.first_rank + place.num_ranks; ++rank) {
      RankView& view = ranks_[static_cast<std::size_t>(rank)];
      view.host = host;
      view.pulse.rank = rank;
      view.pulse.greeted = false;
      view.pulse.last.phase = "starting";
    }
  }
}

// ---- starting ----

void Coordinator::start() {
  hosts_[0].link->send(ReservePort{record_.number, spec_.master_port, hosts_[0].spec.interface});
}

void Coordinator::spawn(const PortReserved& master) {
  record_.master_port = master.port;
  if (stages_.stage() >= Stage::kAborting) {  // it was killed before it began
    for (RankView& rank : ranks_) rank.is_gone = true;
    return stages_.advance(Stage::kFinished);
  }
  Spawn order = context_.order;
  order.attempt = record_.number;
  order.argv = spec_.argv(static_cast<int>(record_.number));
  order.master_port = master.port;
  const bool is_of_interface = order.master_addr.empty();
  if (is_of_interface) order.master_addr = master.address;
  if (is_of_interface && hosts_.size() > 1 && is_loopback(order.master_addr))
    return context_.cannot_start(Error(
        ErrorKind::kConfig,
        fmt::format("interface {} of host {} is its loopback, where other hosts cannot reach it",
                    hosts_[0].spec.interface, hosts_[0].spec.name),
        "iface= in the hostfile, or distributed.interface: one in the network of the others"));
  order.num_hosts = 1 + std::ranges::max(hosts_, {}, &HostRanks::machine).machine;
  for (const HostRanks& host : hosts_) {
    order.host = host.machine;
    order.first_local_rank = host.first_local_rank;
    order.local_size = host.local_size;
    order.first_rank = host.first_rank;
    order.num_ranks = host.num_ranks;
    order.env = context_.order.env;
    order.env.merge(host_environment(host.spec));
    order.address = host.spec.address;
    order.interface = host.spec.interface;
    host.link->send(order);
  }
  spawned_ = true;
  for (RankView& rank : ranks_) rank.pulse.heard_ns = rank.pulse.changed_ns = now_ns();
  if (record_.stop_signal != 0) commands_.ask_to_stop(record_.stop_signal);
  hang_watch_.start();
}

// ---- stopping ----

void Coordinator::on_stage(Stage stage) {
  if (stage >= Stage::kAborting) hang_watch_.stop();
  if (stage == Stage::kAborting) announce_failure();
  if (stage != Stage::kFinished) return;
  if (!are_gone()) context_.notice("some processes cannot be killed: they are stuck in the kernel");
  context_.finished();
}

/// The report comes when all ranks have ended, which may take a while.
void Coordinator::announce_failure() {
  announcement_.expires_after(kLongEnd);
  announcement_.async_wait([this](const std::error_code& error) {
    const Failure* const failure = error ? nullptr : first_failure(record_.failures);
    if (!failure || stages_.stage() >= Stage::kKilling) return;
    context_.notice(
        fmt::format("{}; waiting up to {} s for the other ranks to end", text_of_failure(*failure),
                    std::chrono::ceil<std::chrono::seconds>(stages_.until_kill()).count()));
  });
}

void Coordinator::stop(int signal, const std::string& by) {
  if (stages_.stage() >= Stage::kAborting) return;
  if (signal == SIGUSR1 && !spec_.own_workers) return relay(signal, MessageKind::kStop);
  if (record_.stop_signal == 0) {
    record_.stop_signal = signal;
    record_.stopped_by = by;
  }
  if (is_connecting()) return end_connecting();
  if (spawned_) commands_.ask_to_stop(signal);
  stages_.advance(Stage::kStopping);
}

bool Coordinator::is_connecting() const {
  return spec_.own_workers && !started_ && std::ranges::any_of(ranks_, [](const RankView& rank) {
           return !rank.end && rank.pulse.last.phase == kConnectingPhase;
         });
}

/// For as long as they cannot reach each other, ranks would not obey a stop.
void Coordinator::end_connecting() {
  context_.notice("the ranks are still connecting: there is no step to finish, so they end now");
  record_.ended_connecting = true;
  stages_.advance(Stage::kAborting);
}

void Coordinator::stop_for_next_attempt() {
  if (stages_.stage() >= Stage::kStopping || !spawned_) return;
  commands_.command_all(encode_frame(MessageKind::kStop, ""));
  stages_.advance(Stage::kStopping);
}

void Coordinator::relay(int signal, MessageKind command) {
  commands_.relay(signal, command);
}

void Coordinator::close() {
  stages_.cancel();
  hang_watch_.stop();
  announcement_.cancel();
}

void Coordinator::kill() {
  stages_.advance(Stage::kKilling);
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::ceil(std::chrono::duration<double>(time).count());
  };
  for (const HostRanks& host : hosts_) {
    const std::chrono::nanoseconds silence = host.link->silence();
    if (silence >= kSilent && has_ranks(*host.link))
      context_.notice(fmt::format(
          "waiting {:.0f} s for host {}, from which nothing has come for {:.0f} s: by then, it has "
          "killed its ranks itself",
          seconds(host.link->lease() - silence), host.spec.name, seconds(silence)));
  }
}

// ---- what the agents report ----

void Coordinator::on_frame(const AgentLink& link, const Frame& frame) {
  switch (frame.kind) {
    case MessageKind::kPortReserved:
      return with<PortReserved>(link, frame, [&](const auto& message) {
        if (spawned_ || host_of(link) != 0)
          throw Error(ErrorKind::kPeer, "an agent reserved a port that it was not asked for");
        spawn(message);
      });
    case MessageKind::kNotSpawned:
      return with<NotSpawned>(
          link, frame, [&](const auto& message) { on_not_spawned(link, error_in(message)); });
    case MessageKind::kSpawned:
      return with<Spawned>(link, frame, [&](const auto& message) {
        RankView& rank = view_of(message.rank, link);
        rank.pid = message.pid;
        if (spec_.on_event) spec_.on_event(message.rank, "spawned", {{"pid", message.pid}});
      });
    case MessageKind::kRankHeartbeat:
      return with<RankHeartbeat>(link, frame, [&](const auto& message) {
        on_heartbeat(view_of(message.rank, link), message.beat);
      });
    case MessageKind::kRankEvent:
      return with<RankEvent>(link, frame, [&](const auto& message) {
        on_event(view_of(message.rank, link), message);
      });
    case MessageKind::kChannelBroken:
      return with<ChannelBroken>(link, frame, [&](const auto& message) {
        on_broken(view_of(message.rank, link), message.why);
      });
    case MessageKind::kRankStopped:
      return with<RankStopped>(link, frame, [&](const auto& message) {
        Pulse& pulse = view_of(message.rank, link).pulse;
        pulse.stopped = message.stopped;
        if (!pulse.greeted) pulse.heard_ns = now_ns();
      });
    case MessageKind::kEnded:
      return with<Ended>(link, frame, [&](const auto& message) {
        on_ended(view_of(message.rank, link), message);
      });
    case MessageKind::kGone:
      return with<Gone>(
          link, frame, [&](const auto& message) { on_gone(view_of(message.rank, link), message); });
    case MessageKind::kAgentStoreSet:
      return with<AgentStoreSet>(
          link, frame, [&](const auto& message) { store_.set(message.key, message.value); });
    case MessageKind::kAgentStoreGet:
      return with<AgentStoreGet>(link, frame, [&](const auto& message) {
        store_.get(message.key,
                   [this, host = host_of(link), key = message.key](const std::string& value) {
                     hosts_[host].link->send(AgentStoreValue{record_.number, key, value});
                   });
      });
    default:
      throw Error(ErrorKind::kPeer, "an agent sent a message that only the launcher may send");
  }
}

/// Does `act` with the message in `frame`, unless it is of another attempt. Error(kPeer) if it is
/// of this one, but the agent has no part in it.
template <class Message, class Act>
void Coordinator::with(const AgentLink& link, const Frame& frame, const Act& act) {
  const auto message = decode_payload<Message>(frame.payload);
  if (message.attempt != record_.number) return;
  host_of(link);  // throws
  act(message);
}

std::size_t Coordinator::host_of(const AgentLink& link) const {
  const auto it = std::find_if(hosts_.begin(), hosts_.end(),
                               [&](const HostRanks& host) { return host.link == &link; });
  if (it == hosts_.end())
    throw Error(ErrorKind::kPeer, "an agent spoke of an attempt in which it runs no ranks");
  return static_cast<std::size_t>(it - hosts_.begin());
}

/// An agent speaks of its own ranks only.
RankView& Coordinator::view_of(int rank, const AgentLink& link) {
  const std::size_t host = host_of(link);
  if (rank < 0 || rank >= spec_.num_workers || ranks_[static_cast<std::size_t>(rank)].host != host)
    throw Error(ErrorKind::kPeer,
                fmt::format("an agent reported on rank {}, which it does not run", rank));
  return ranks_[static_cast<std::size_t>(rank)];
}

void Coordinator::on_heartbeat(RankView& rank, const Heartbeat& beat) {
  if (!rank.is_heard) return;
  rank.pulse.greeted = true;
  hang_watch_.excuse_gap();  // the beats that have waited come before the check that is late
  rank.pulse.hear(beat, now_ns());
  if (record_.stop_signal != 0 && stages_.stage() == Stage::kStopping && is_connecting())
    end_connecting();
  pass_on(rank, "heartbeat", {{"phase", beat.phase}});
}

void Coordinator::on_event(RankView& rank, const RankEvent& message) {
  log_debug("rank {} sent {} {}", rank.pulse.rank, message.name, message.body);
  if (!rank.is_heard) return;
  rank.pulse.greeted = true;
  const auto body = try_parse_json<nlohmann::json>(message.body);
  if (!body.is_object()) refuse_payload();
  // What it says after we have sent it a signal is our doing.
  if (message.name == "failed" && !message.signalled) {
    try {
      Failure failure = failure_from_event(rank.pulse.rank, body);
      failure.at_ns = record_.link_of(rank).here_ns(message.at_ns);
      fail(failure);
    } catch (const Error& e) {
      return break_channel(rank, e.message());
    }
  }
  started_ |= message.name == "started";
  pass_on(rank, message.name, body);
}

/// Passes an event on to the reader of events. One that it cannot make sense of breaks the channel.
void Coordinator::pass_on(RankView& rank, const std::string& kind, const nlohmann::json& body) {
  if (!spec_.on_event) return;
  try {
    spec_.on_event(rank.pulse.rank, kind, body);
  } catch (const nlohmann::json::exception& e) {
    break_channel(rank, fmt::format("a field of its event '{}' is missing or wrong: {}", kind,
                                    reason_in(e.what())));
  } catch (const Error& e) {
    break_channel(rank, e.message());
  }
}

void Coordinator::break_channel(RankView& rank, const std::string& why) {
  record_.link_of(rank).send(CloseChannel{record_.number, rank.pulse.rank});
  on_broken(rank, why);
}

void Coordinator::on_broken(RankView& rank, const std::string& why) {
  rank.is_heard = false;
  if (!spec_.own_workers)
    return context_.notice(
        fmt::format("the control channel of rank {} is closed: {}", rank.pulse.rank, why));
  Failure failure;
  failure.rank = rank.pulse.rank;
  failure.at_ns = now_ns();
  failure.exit_code = static_cast<int>(ErrorKind::kPeer);
  failure.reason = "broke the control channel: " + why;
  fail(failure);
}

void Coordinator::on_ended(RankView& rank, const Ended& end) {
  rank.end = end;
  const AgentLink& link = record_.link_of(rank);
  rank.end->at_ns = link.here_ns(end.at_ns);
  rank.end_uncertainty_ns = link.uncertainty_ns();
  if (!is_clean(end, spec_.own_workers) && !end.signalled)
    fail(failure_from_end(*rank.end, spec_.own_workers));
}

void Coordinator::on_gone(RankView& rank, const Gone& message) {
  rank.is_gone = true;
  rank.last_lines = message.last_lines;
  rank.error_message = message.error_message;
  if (!message.port_user.empty()) record_.port_user = message.port_user;
  if (are_gone()) stages_.advance(Stage::kFinished);
}

void Coordinator::on_not_spawned(const AgentLink& link, Error error) {
  if (hosts_.size() > 1) error.in("host " + link.host());
  if (record_.number == 0) return context_.cannot_start(error);
  if (!unstarted_) unstarted_.emplace(link.host(), error);
  const std::size_t host = host_of(link);
  Failure failure;
  failure.rank = hosts_[host].first_rank;
  failure.at_ns = now_ns();
  failure.exit_code = error.exit_code();
  failure.permanent = true;
  failure.reason = "could not be started";
  failure.message = error.message();
  failure.hint = error.hint();
  failure.context = error.context();
  end_host(host, failure);
}

/// None of the host's ranks is left.
void Coordinator::end_host(std::size_t host, const Failure& failure) {
  for (RankView& rank : ranks_) rank.is_gone |= rank.host == host || !spawned_;
  fail(failure);
  if (are_gone()) stages_.advance(Stage::kFinished);
}

std::string Coordinator::hint_for_lost(const AgentLink& link) const {
  std::string out = link.was_silent()
                        ? "the host or its network is down, or its agent or connection is stopped"
                        : "the host is down, or its agent or connection was killed";
  if (spec_.max_restarts == 0 && spec_.min_hosts == 0 &&
      std::ranges::none_of(spec_.hosts, &JobHost::is_spare)) {
    out += "; with --max_restarts N the job waits for the host and starts again";
    if (!spec_.rendezvous) out += ", or after 30 s with a spare of the hostfile";
  }
  return out;
}

void Coordinator::on_lost(const AgentLink& link, const std::string& why) {
  const std::size_t host = host_of(link);
  if (!has_ranks(link)) return;
  Failure failure;
  failure.rank = -1;
  failure.host = static_cast<int>(host);
  failure.host_name = link.host();
  failure.at_ns = link.lost_ns();
  failure.exit_code = static_cast<int>(ErrorKind::kPeer);
  failure.reason = "is lost: " + why;
  failure.hint = hint_for_lost(link);
  if (link.has_given_up_here()) {
    failure.reason = fmt::format("gave up this launcher, which was stopped for {:.0f} s",
                                 std::chrono::duration<double>(link.standstill()).count());
    failure.hint = fmt::format(
        "each host ends its part of a job if it hears nothing from the launcher for {:.0f} s",
        std::chrono::duration<double>(link.lease()).count());
  } else {
    blame_own_network(failure);
  }
  end_host(host, failure);
}

/// No host is to blame if nothing comes from any of several, or this machine knows what keeps it
/// from reaching the lost one.
void Coordinator::blame_own_network(Failure& failure) {
  const auto silent = silent_hosts();
  const HostRanks& host = hosts_[static_cast<std::size_t>(failure.host)];
  const std::string why = silent.empty() || host.address.empty() ? "" : why_cut_off(host.address);
  if (silent.size() < 2 && why.empty()) return;
  failure.message =
      fmt::format("nothing has come from any host ({}) for {:g} s", fmt::join(silent, ", "),
                  std::chrono::duration<double>(host.link->lease()).count());
  failure.hint =
      why.empty()
          ? fmt::format("most likely, the network of this machine, {}, has failed", host_name())
          : fmt::format("the network of this machine, {}, has failed: {}", host_name(), why);
  for (auto& [key, earlier] : record_.failures) {
    if (earlier.rank >= 0) continue;
    earlier.message = failure.message;
    earlier.hint = failure.hint;
  }
}

bool Coordinator::has_ranks(const AgentLink& link) const {
  const std::size_t host = host_of(link);
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [&](const RankView& rank) { return rank.host == host && !rank.is_gone; });
}

/// The other machines, if nothing has come from any of them for nearly a lease: they are not
/// noticed at quite the same time.
std::vector<std::string> Coordinator::silent_hosts() const {
  std::vector<std::string> names;
  for (const HostRanks& host : hosts_) {
    const AgentLink& link = *host.link;
    if (link.lease().count() == 0) continue;  // this machine
    if (link.silence() < link.lease() * 4 / 5) return {};
    names.push_back(link.host());
  }
  return names;
}

bool Coordinator::are_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankView& r) { return r.is_gone; });
}

/// Adds what is known of its host. When a host was lost is known by this machine's clock.
Failure Coordinator::with_host(Failure failure) const {
  if (failure.rank < 0) return failure;
  failure.host = static_cast<int>(ranks_[static_cast<std::size_t>(failure.rank)].host);
  failure.uncertainty_ns = hosts_[static_cast<std::size_t>(failure.host)].link->uncertainty_ns();
  return failure;
}

void Coordinator::fail(const Failure& failure) {
  log_info("{} failed: {}", failure.culprit(),
           failure.message.empty() ? failure.reason : failure.message);
  if (record_.ended_connecting) return;
  if (const auto known = record_.failures.find(failure.key()); known != record_.failures.end()) {
    // Its last words came before; now it has ended.
    if (known->second.reason.empty()) known->second.reason = failure.reason;
    return;
  }
  if (failure.by_peer && stages_.stage() < Stage::kAborting)
    blame_straggler(ranks_[static_cast<std::size_t>(failure.rank)]);
  record_.failures.emplace(failure.key(), with_host(failure));
  stages_.advance(Stage::kAborting);
}

void Coordinator::on_hang(const Hang& hang) {
  ask_for_stacks();
  fail(failure_from_hang(hang));
}

void Coordinator::blame_straggler(const RankView& waiting) {
  const auto hang = hang_watch_.straggler_behind(waiting);
  if (!hang) return;
  ask_for_stacks();
  record_.failures.emplace(hang->rank, with_host(failure_from_hang(*hang)));
}

/// Each rank writes the stacks of its threads to its log before it must end.
void Coordinator::ask_for_stacks() {
  commands_.command_all(encode_frame(MessageKind::kShowStacks, ""));
}

// ---- how it went ----

bool Coordinator::is_worth_a_restart() const {
  const Failure* failure = first_failure(record_.failures);
  return failure && !failure->permanent && record_.stop_signal == 0;
}

Verdict Coordinator::verdict() const {
  return verdict_on(record_);
}

nlohmann::json Coordinator::status() const {
  nlohmann::json status = status_of(record_, now_ns());
  status["state"] = stages_.stage() == Stage::kRunning    ? "running"
                    : stages_.stage() == Stage::kStopping ? "stopping"
                                                          : "ending";
  return status;
}

}  // namespace hgt
