#include "roster.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

#include <asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/host.h"

#include "job_signals.h"
#include "look_at_host.h"
#include "payload.h"
#include "roster_texts.h"

namespace hgt {
namespace {

using State = Candidate::State;
using Clock = std::chrono::steady_clock;

// A driver that starts eight GPUs without persistence mode takes more than one lease.
constexpr int kAnswerLeases = 4;
// A driver that hangs seldom recovers, and may hold what asks it for ever.
constexpr std::chrono::minutes kPauseAfterNoAnswer{10};

[[noreturn]] void throw_no_descriptor() {
  throw Error(ErrorKind::kDevice, fmt::format("cannot open a socket: {}", std::strerror(errno)),
              "too many files are open; raise the limit with `ulimit -n`");
}

OwnedFd copy_of(const OwnedFd& fd) {
  OwnedFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (copy.get() < 0) throw_no_descriptor();
  return copy;
}

}  // namespace

Roster::Roster(asio::io_context& io, OutputSink& console, std::chrono::milliseconds lease,
               Events events)
    : io_(io),
      console_(console),
      lease_(lease),
      events_(std::move(events)),
      timer_(io),
      return_timer_(io) {}

void Roster::inspect(Inspect wanted, bool own_workers, bool own_cpu_workers) {
  own_workers_ = own_workers;
  inspection_ = std::move(wanted);
  own_cpu_workers_ = own_cpu_workers;
}

void Roster::push(const PushedFiles& files, const std::string& folder, const std::string& mark) {
  files_.emplace(io_, files, folder, mark);
}

void Roster::limit(WorldLimits limits, std::chrono::milliseconds patience,
                   std::chrono::milliseconds call_period) {
  ranks_.limit(std::move(limits));
  patience_ = patience;
  call_period_ = call_period;
}

void Roster::add_this_machine(const Agent::Context& context, int num_ranks) {
  Host& host = hosts_.emplace_back();
  host.spec = {.name = host_name(), .workers = num_ranks};
  ranks_.add_range(0, num_ranks);
  start_local_agent(host, context);
  host.state = State::kHere;
  check_ready();
}

void Roster::start_local_agent(Host& host, const Agent::Context& context) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_no_descriptor();
  OwnedFd ours(ends[0]), theirs(ends[1]);
  OwnedFd our_copy = copy_of(ours), their_copy = copy_of(theirs);
  agent_ = std::make_unique<Agent>(context, std::move(theirs), std::move(their_copy));
  connect(host, std::move(ours), std::move(our_copy));
}

void Roster::set_hosts(const std::vector<JobHost>& hosts) {
  hosts_.resize(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts_[i].spec = hosts[i];
    if (!hosts[i].is_spare) ranks_.add_range(i, hosts[i].workers);
  }
}

void Roster::call(const std::vector<JobHost>& hosts, const std::string& program,
                  const std::optional<Agent::Context>& here) {
  calls_ = std::make_unique<SshCalls>(
      io_, hosts_, program,
      SshCalls::Events{[this](Host& host, OwnedFd in, OwnedFd out) {
                         connect(host, std::move(in), std::move(out));
                       },
                       [this](Host& host, const std::string& why) { on_unusable(host, why); },
                       events_.notice});
  set_hosts(hosts);
  if (here) {
    Host& first = hosts_[ranks_.ranges()[0].host];
    first.is_here = true;
    start_local_agent(first, *here);
    agent_->look_at_devices();
  }
  call_next();
}

void Roster::meet(const std::vector<JobHost>& hosts, const Rendezvous& rendezvous,
                  const Agent::Context& context) {
  set_hosts(hosts);
  hosts_[0].spec.name = host_name();
  hosts_[0].machine = machine_of(rendezvous);
  nodes_ = std::make_unique<JoiningNodes>(
      io_, hosts_, rendezvous,
      JoiningNodes::Events{[this](Host& host) { return lets_join(host); },
                           [this](Host& host, OwnedFd in, OwnedFd out) {
                             connect(host, std::move(in), std::move(out));
                             if (host.is_left_out) keep_out(host);
                           },
                           [this](Host& host, const std::string& why) { on_unusable(host, why); },
                           events_.notice});
  nodes_->start_waiting();
  start_local_agent(hosts_[0], context);
  agent_->look_at_devices();
}

void Roster::call_next() {
  if (calls_ && phase_ != Phase::kFenced) calls_->call_next();
}

void Roster::call_again(Host& host) {
  if (!host.is_here && !host.is_left_out && host.not_before <= Clock::now()) disconnect(host);
}

/// Leaves the host as if it had never been called. The loop may still refer to the last call, so
/// that is destroyed after what is queued there.
void Roster::disconnect(Host& host) {
  Host next;
  next.spec = host.spec;
  next.is_reported = host.is_reported;
  next.is_dropped_reported = host.is_dropped_reported;
  next.is_left_out = host.is_left_out;
  next.was_set_aside = host.was_set_aside;
  next.not_before = host.not_before;
  next.lacks = host.lacks;
  next.fenced_ns = host.fenced_ns;
  if (host.is_left_out) next.why_away = host.why_away;
  if (host.ssh) host.ssh->close();
  if (host.pause) host.pause->cancel();
  if (host.link) host.link->close();
  asio::post(io_, [last = std::exchange(host, std::move(next))] {});
}

void Roster::gather() {
  phase_ = Phase::kGathering;
  return_timer_.cancel();
  if (!std::exchange(could_not_start_, false)) {
    is_waiting_told_ = false;
    deadline_ns_ = now_ns() + patience_.count();
  }
  std::int64_t fence_ns = 0;
  std::vector<std::string> lost, may_return;
  for (const RankRange& range : ranks_.world()) {
    const Host& host = hosts_[range.host];
    if (host.fenced_ns == 0) continue;
    lost.push_back(host.spec.name);
    if (!host.is_left_out) may_return.push_back(host.spec.name);
    fence_ns = std::max(fence_ns, host.fenced_ns);
  }
  if (lost.empty()) {
    if (nodes_) nodes_->start_waiting();
    return check_ready();
  }
  const std::chrono::nanoseconds wait(std::max<std::int64_t>(0, fence_ns - now_ns()));
  events_.notice(
      fmt::format("waiting {:.0f} s, after which no process of the job can be left on {}",
                  std::ceil(std::chrono::duration<double>(wait).count()), fmt::join(lost, ", ")));
  phase_ = Phase::kFenced;
  timer_.expires_after(wait);
  timer_.async_wait([this, may_return](const std::error_code& error) {
    if (error || is_stopping_) return;
    phase_ = Phase::kGathering;
    assign_spares();
    if (ranks_.has_range_of(State::kAway)) call_away();
    if (nodes_) nodes_->start_waiting();
    if (nodes_ && !could_run() && !may_return.empty())
      events_.notice(fmt::format("too few nodes are left: waiting up to {} s for {} to join again",
                                 nodes_->join_timeout().count(), fmt::join(may_return, ", ")));
    check_ready();
  });
}

void Roster::leave_out(const std::string& name, const std::string& why) {
  for (Host& host : hosts_) {
    if (host.spec.name != name) continue;
    events_.notice(fmt::format("{} is left out for the rest of the job: {}", title_of(host), why));
    if (host.ssh) disconnect(host);
    host.is_left_out = host.is_reported = true;
    host.why_away = why;
    keep_out(host);
  }
}

/// A node stays until the job ends, so that it ends with the job's exit code.
void Roster::keep_out(Host& host) {
  if (host.carrier) host.link->send(LeftOut{host.why_away});
  host.state = State::kAway;
}

bool Roster::set_aside(const std::string& name, const std::string& why) {
  const auto host =
      std::ranges::find(hosts_, name, [](const Host& host) { return host.spec.name; });
  if (is_node_0(*host)) return false;
  could_not_start_ = host->was_set_aside = true;
  host->ssh ? put_aside(*host, why) : leave_out(name, why);
  return true;
}

void Roster::forget_set_aside() {
  for (const RankRange& range : ranks_.world()) hosts_[range.host].was_set_aside = false;
}

void Roster::connect(Host& host, OwnedFd in, OwnedFd out) {
  const auto is_current = [&host](const AgentLink& link) { return host.link.get() == &link; };
  host.link = std::make_unique<AgentLink>(
      io_, host.spec.name, std::move(in), std::move(out), console_,
      AgentLink::Events{[this, &host, is_current](AgentLink& link, const Frame& frame) {
                          if (is_current(link)) on_frame(host, frame);
                        },
                        events_.notice,
                        [this, &host, is_current](AgentLink& link, const std::string& why) {
                          if (is_current(link)) on_lost(host, why);
                        }});
  if (host.ssh || host.carrier) host.link->start_lease(lease_);
  if (!host.ssh && !host.is_here && !nodes_) return;
  limit_answer(host);
  Inspect wanted = inspection_;
  wanted.address = host.spec.address;
  wanted.interface = host.spec.interface;
  host.link->send(wanted);
}

/// An agent answers at once, except for what it must ask a driver, which may have failed.
void Roster::limit_answer(Host& host) {
  const std::chrono::milliseconds limit = kAnswerLeases * lease_;
  host.answer_limit = std::make_unique<asio::steady_timer>(io_, limit);
  const auto expired = [this, &host, limit, link = host.link.get()](const std::error_code& error) {
    if (error || host.facts || host.link.get() != link) return;
    const std::string why =
        fmt::format("GPU driver has not answered for {:g} s; nvidia-smi may hang there, too",
                    std::chrono::duration<double>(limit).count());
    if (is_of_launcher(host))
      return events_.unusable(Error(ErrorKind::kDevice, "this machine's " + why));
    disconnect(host);
    host.not_before = Clock::now() + kPauseAfterNoAnswer;
    on_unusable(host, "its " + why);
  };
  host.answer_limit->async_wait(expired);
}

void Roster::on_frame(Host& host, const Frame& frame) {
  if (frame.kind == MessageKind::kSignalReceived) {
    const int signal = decode_payload<SignalReceived>(frame.payload).signal;
    if (!sigabbrev_np(signal)) refuse_payload();
    if (has_begun_ ? ranks_.runs_ranks(host) : ranks_.has_range(host))
      return events_.signal(host.spec.name, signal);
    if (!exit_code_without_ranks(signal, own_workers_)) {
      if (!is_stopping_)
        events_.notice(fmt::format("SIG{} on host {} has no effect, because no rank runs there",
                                   sigabbrev_np(signal), host.spec.name));
      return;
    }
    disconnect(host);  // nothing of the job is on it
    return on_unusable(host, fmt::format("SIG{} came there", sigabbrev_np(signal)));
  }
  if (frame.kind == MessageKind::kJobEnded) {
    host.knows_end = true;
    return nodes_ ? nodes_->check_dismissed() : void();
  }
  if (frame.kind == MessageKind::kAgentHello)
    return on_hello(host, decode_payload<AgentHello>(frame.payload));
  if (host.state == State::kCalled && !host.has_said_hello)
    throw Error(ErrorKind::kPeer, "its first message is not a hello");
  if (frame.kind == MessageKind::kHostFacts)
    return on_facts(host, decode_payload<HostFacts>(frame.payload));
  if (frame.kind == MessageKind::kFilesReady || frame.kind == MessageKind::kPullPart ||
      frame.kind == MessageKind::kPullHash)
    return on_files(host, frame);
  if (phase_ != Phase::kReady) return;  // of the last attempt
  events_.frame(*host.link, frame);
}

void Roster::on_hello(Host& host, const AgentHello& hello) {
  if (std::exchange(host.has_said_hello, true))
    throw Error(ErrorKind::kPeer, "it sent a second hello");
  if (host.is_left_out) return;
  if (hello.gpus < 0 || hello.gpus > kMaxWorkersOfHost) refuse_payload();
  if (hello.version != kAgentVersion)
    return on_unusable(host, "its hgtrain has another version than this one");
  if (hello.gpus < host.spec.min_gpus)
    return put_aside(
        host, fmt::format("programs see {} there, and {} {} asked for{}",
                          hello.gpus == 1 ? "1 GPU" : fmt::format("{} GPUs", hello.gpus),
                          host.spec.min_gpus, host.spec.min_gpus == 1 ? "is" : "are",
                          hello.gpus > 0
                              ? ""
                              : fmt::format("; `hgtrain doctor`, with the same hosts, says why, "
                                            "and {} asks for none",
                                            own_workers_ ? "--device cpu" : "--num_workers N")));
  if (host.spec.workers == 0) host.spec.workers = std::max(1, hello.gpus);
  host.address = hello.address;
  host.gpus = hello.gpus;
}

void Roster::on_facts(Host& host, const HostFacts& facts) {
  host.answer_limit.reset();
  if (host.state != State::kCalled) return;  // it cannot be used
  host.facts = facts;
  if (has_begun_ || (host.ssh && !ranks_.has_range(host)))
    if (const std::string lacks = why_lacking(host); !lacks.empty()) return put_aside(host, lacks);
  host.state = State::kHere;
  host.fenced_ns = 0;
  host.lacks.clear();
  ranks_.count_workers();
  if (std::exchange(host.is_reported, false) && phase_ == Phase::kReady)
    events_.returned(host.spec.name);
  check_ready();
}

void Roster::on_files(Host& host, const Frame& frame) {
  if (host.files != Host::Files::kAsked) throw Error(ErrorKind::kPeer, "it was sent no files");
  if (frame.kind == MessageKind::kFilesReady) {
    const auto answer = decode_payload<FilesReady>(frame.payload);
    if (!answer.why.empty()) return on_unusable(host, answer.why);
    host.files = Host::Files::kThere;
    return check_ready();
  }
  const auto send = [&host, link = host.link.get()](const auto& message) {
    if (host.link.get() == link) link->send(message);
  };
  try {
    files_->answer(frame, {send, send});
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kPeer) throw;
    events_.unusable(e);  // the file is this machine's
  }
}

void Roster::on_lost(Host& host, const std::string& why) {
  const std::string how = host.ssh && !host.link->was_silent() ? host.ssh->how_ended() : "";
  const std::string said = host.ssh ? host.ssh->last_words() : "";
  const std::string reason = !said.empty() ? said : how.empty() ? why : why + ": " + how;
  if (host.ssh) host.ssh->kill();
  host.fenced_ns = host.link->fenced_ns();
  host.knows_end = !nodes_ || !nodes_->dials_again(host);
  if (nodes_ && nodes_->has_job_ended()) return nodes_->check_dismissed();
  if (nodes_ && phase_ != Phase::kReady && host.state != State::kAway) {
    events_.notice(fmt::format(
        "host {} has left {}: {}; it may join again", host.spec.name,
        has_begun_ ? "while the job waited to restart" : "before all nodes had joined", reason));
    call_again(host);
    return check_ready();
  }
  const bool ends_attempt =
      phase_ == Phase::kReady && host.state == State::kHere && ranks_.runs_ranks(host);
  host.is_reported = ends_attempt || host.is_left_out;  // by its verdict, or before
  on_unusable(host, reason);
  if (ends_attempt) events_.lost(*host.link, reason);
}

void Roster::on_unusable(Host& host, const std::string& why) {
  if (!host.is_left_out) host.why_away = why;
  host.answer_limit.reset();
  host.state = State::kAway;
  check_ready();
}

/// What keeps the host from running ranks, whatever the other hosts are; "" = nothing.
std::string Roster::why_lacking(const Host& host) const {
  const auto index = static_cast<std::size_t>(&host - hosts_.data());
  const Preflight found =
      check_hosts(inspected_hosts(hosts_, {{index, host.spec.workers}}), own_cpu_workers_);
  if (found.errors.empty())
    return ranks_.leads(host) && !host.facts->missing_run_dir.empty()
               ? "it does not see the run folder " + host.facts->missing_run_dir
               : "";
  const std::string why = found.errors[0].message(), subject = "host " + host.spec.name + " ";
  return why.starts_with(subject) ? "it " + why.substr(subject.size()) : why;
}

/// The host answers, but cannot run ranks now. It is called again like one that does not answer; a
/// node would not dial again.
void Roster::put_aside(Host& host, const std::string& lacks) {
  if (is_node_0(host))
    return events_.unusable(
        Error(ErrorKind::kDevice, fmt::format("{} cannot be used: {}", title_of(host), lacks)));
  if (host.carrier && has_begun_) {
    leave_out(host.spec.name, lacks);
    return check_ready();
  }
  if (!host.ssh) return on_unusable(host, lacks);
  if (std::exchange(host.lacks, lacks) != lacks) host.is_reported = false;
  disconnect(host);
  host.why_away = lacks;
  host.state = State::kAway;
  if (has_begun_) report_away();
  check_ready();
}

void Roster::assign_spares() {
  const std::vector<std::string> texts = ranks_.assign_spares();
  if (!texts.empty()) name_away();  // that is the reason
  for (const std::string& text : texts) events_.notice(text);
}

/// Whether a node that dials can be this host now.
bool Roster::lets_join(Host& host) {
  if (host.is_left_out) disconnect(host);
  if (host.is_left_out || host.state != State::kAway) return true;
  if (patience_.count() == 0 || phase_ == Phase::kFenced || !is_clear(host)) return false;
  host.not_before = {};  // nobody calls it: it comes by itself
  call_again(host);
  return true;
}

/// Nothing of the job can be left on the host, which is away.
bool Roster::is_clear(const Host& host) const {
  return !ranks_.runs_ranks(host) && host.fenced_ns < now_ns();
}

/// Whether the hosts that have answered are enough, although others have not.
bool Roster::could_run() const {
  return patience_.count() != 0 && ranks_.could_run();  // without patience, all are needed
}

void Roster::check_ready() {
  if (nodes_ && nodes_->has_job_ended()) return;
  call_next();
  if (phase_ == Phase::kReady) return report_away();
  if (phase_ == Phase::kFenced) return;
  assign_spares();
  ranks_.count_workers();
  const bool may_come =
      std::ranges::any_of(hosts_, [](const Host& host) { return host.state == State::kCalled; });
  if (ranks_.has_range_of(State::kCalled) || (ranks_.wants_others() && may_come)) {
    if (nodes_) nodes_->last_call(could_run());
    return;
  }
  ranks_.choose() ? begin() : wait_for_hosts();
}

/// Tells what was found on the hosts, each once.
std::optional<Error> Roster::why_unfit() {
  const Preflight found = check_hosts(inspected_hosts(hosts_, ranks_.world()), own_cpu_workers_);
  for (const std::string& text : found.notices)
    if (reported_.insert(text).second) events_.notice(text);
  ErrorList errors;
  for (const Error& error : found.errors) errors.add(error);
  if (errors.all()) return *errors.all();
  return std::nullopt;
}

void Roster::begin() {
  if (const auto why = why_unfit()) return events_.unusable(*why);
  if (!have_files()) return;
  phase_ = Phase::kReady;
  if (!std::exchange(has_begun_, true)) return_timer_.expires_after(call_period_);
  if (nodes_) nodes_->stop_waiting();
  report_away();
  const bool runs_on_fewer = !ranks_.runs_all();
  if (std::exchange(runs_on_fewer_, runs_on_fewer) || runs_on_fewer)
    events_.notice(text_of_world(hosts_, ranks_.world(), ranks_.ranges().size()));
  events_.ready();
  look_for_returns();
}

/// Whether the hosts of the next attempt have the files that are pushed; tells those that do not
/// know of them yet.
bool Roster::have_files() {
  bool out = true;
  for (const RankRange& range : ranks_.world()) {
    Host& host = hosts_[range.host];
    if (!files_ || (!host.ssh && !host.carrier)) continue;
    if (host.files == Host::Files::kUnknown) {
      host.files = Host::Files::kAsked;
      PushFiles order = files_->order();
      order.host = host.spec.name;
      host.link->send(order);
    }
    out = out && host.files == Host::Files::kThere;
  }
  return out;
}

/// Again, also spares.
void Roster::call_away() {
  return_timer_.expires_after(call_period_);
  for (Host& host : hosts_)
    if (host.state == State::kAway) call_again(host);
}

/// When the period is over, which goes on when the job restarts, however often that is. Nodes
/// return by themselves.
void Roster::look_for_returns() {
  if (patience_.count() == 0 || nodes_) return;
  return_timer_.async_wait([this](const std::error_code& error) {
    if (error || is_stopping_) return;
    for (Host& host : hosts_)
      if (host.state == State::kAway && is_clear(host)) call_again(host);
    call_next();
    return_timer_.expires_after(call_period_);
    look_for_returns();
  });
}

void Roster::wait_for_hosts() {
  const std::chrono::nanoseconds left(deadline_ns_ - now_ns());
  const bool may_come = std::ranges::any_of(
      hosts_, [](const Host& host) { return host.state == State::kAway && !host.is_left_out; });
  if (left.count() <= 0 || !may_come)
    return events_.unusable(why_unusable(hosts_, ranks_.ranges(), nodes_ != nullptr));
  if (!std::exchange(is_waiting_told_, true))
    events_.notice(
        text_of_waiting(hosts_, left, nodes_ ? std::chrono::nanoseconds(0) : call_period_));
  timer_.expires_after(std::min(left, call_period_));
  timer_.async_wait([this](const std::error_code& error) {
    if (error || is_stopping_ || phase_ == Phase::kReady) return;
    call_away();
    check_ready();
  });
}

void Roster::name_away() {
  if (is_stopping_) return;
  for (Host& host : hosts_)
    if (host.state == State::kAway && !std::exchange(host.is_reported, true))
      events_.notice(text_of_away(host));
}

/// Names hosts that cannot be used, and that the job can do without.
void Roster::report_away() {
  name_away();
  if (is_stopping_) return;
  const auto can_be_lost = [this](const Host& host) { return !is_of_launcher(host); };
  for (const Host& host : hosts_) {
    if (host.state == State::kHere && ranks_.is_too_small(host, can_be_lost))
      if (const std::string text = text_of_small_spare(host); reported_.insert(text).second)
        events_.notice(text);
  }
}

/// All others have dialled its address.
bool Roster::is_node_0(const Host& host) const {
  return nodes_ && &host == &hosts_[0];
}

bool Roster::is_of_launcher(const Host& host) const {
  return host.is_here || is_node_0(host);
}

void Roster::dismiss(int exit_code, std::function<void()> done) {
  begin_stop();
  timer_.cancel();
  return_timer_.cancel();
  if (!nodes_) return done();
  nodes_->dismiss(exit_code, kDismissLimit, std::move(done));
}

std::vector<HostRanks> Roster::hosts() const {
  return place_ranks(hosts_, ranks_.world());
}

int Roster::num_ranks() const {
  return count_ranks(ranks_.world());
}

std::vector<std::string> Roster::awaited_hosts() const {
  std::vector<std::string> out;
  for (const Host& host : hosts_)
    if (host.state != State::kHere && ranks_.has_range(host)) out.push_back(host.spec.name);
  return out;
}

std::set<pid_t> Roster::ssh_processes() const {
  std::set<pid_t> out;
  for (const Host& host : hosts_)
    if (host.ssh) out.insert(host.ssh->pid());
  return out;
}

std::string Roster::master_address() const {
  const JobHost& first = hosts_[ranks_.world()[0].host].spec;
  if (nodes_ && first.address.empty() && first.interface.empty()) return dialled_address(hosts_);
  return find_master_address(hosts_, ranks_.world());
}

}  // namespace hgt
