#include "joining_nodes.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/own_thread.h"
#include "hgtrain/base/text.h"
#include "hgtrain/machine/network.h"

#include "ports.h"
#include "roster_texts.h"

namespace hgt {

using State = Candidate::State;

std::string node_name(const Join& join, int node, const std::vector<RosterHost>& hosts) {
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other)
    if (other != node && hosts[static_cast<std::size_t>(other)].spec.name == join.host)
      return fmt::format("{} (node {})", join.host, node);
  return join.host;
}

namespace {

bool is_taken(const RosterHost& host) {
  return host.link && (host.state != State::kAway || (host.is_left_out && !host.link->is_lost()));
}

constexpr std::chrono::nanoseconds kSilent = std::chrono::seconds(2);
constexpr std::chrono::nanoseconds kRecent =
    std::chrono::seconds(5);  // the pause between two dials is shorter

bool is_silent(const RosterHost& host) {
  return is_taken(host) && host.link->silence() >= kSilent;
}

}  // namespace

int free_number(const Join& join, const std::vector<RosterHost>& hosts) {
  int free = kAnyNode, silent = kAnyNode;
  for (int node = static_cast<int>(hosts.size()) - 1; node > 0; --node) {
    const RosterHost& host = hosts[static_cast<std::size_t>(node)];
    if (is_taken(host) && !is_silent(host)) continue;
    if (host.spec.name == node_name(join, node, hosts)) return node;
    if (is_silent(host))
      silent = node;
    else if (!host.is_left_out)
      free = node;
  }
  return free == kAnyNode ? silent : free;
}

bool may_replace(const Join& join, const std::vector<RosterHost>& hosts, std::int64_t since_ns) {
  const std::int64_t proof_ns = since_ns + kSilent.count();
  for (std::size_t node = 1; node < hosts.size(); ++node) {
    if (join.node != kAnyNode && join.node != static_cast<int>(node)) continue;
    const RosterHost& host = hosts[node];
    if (is_silent(host) || (is_taken(host) && now_ns() - host.link->silence().count() <= proof_ns))
      return true;
  }
  return false;
}

namespace {

using Values = std::map<std::string, std::string>;

/// "--max_restarts is 3 there and 0 on node 0", for each that differs.
std::vector<std::string> differences(const Values& there, const Values& here) {
  constexpr std::size_t kMaxBytes = 200;
  const auto text = [](const Values& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? "not given" : shortened(found->second, kMaxBytes);
  };
  Values all = there;
  all.insert(here.begin(), here.end());
  std::vector<std::string> out;
  for (const auto& [key, unused] : all)
    if (const std::string one = text(there, key), other = text(here, key); one != other)
      out.push_back(fmt::format("{} is {} there and {} on node 0", key, one, other));
  return out;
}

/// To a node that gets nothing else.
template <class Message>
void send_last(const Message& message, const OwnedFd& out) {
  const std::string frame = encode_frame(Message::kKind, encode_payload(message));
  [[maybe_unused]] const ssize_t sent = ::write(out.get(), frame.data(), frame.size());
}

/// torchrun's default is "none", too.
std::string run_id(const Values& settings) {
  const auto id = settings.find("--rdzv_id");
  return id == settings.end() ? "none" : id->second;
}

/// Before it has a place among the hosts.
std::string newcomer_name(const Newcomer& newcomer) {
  const Join& join = newcomer.join;
  if (!newcomer.is_readable) return "a node at " + newcomer.address;
  return fmt::format("{} on {} ({})",
                     join.node == kAnyNode ? "a node" : fmt::format("node {}", join.node),
                     join.host, newcomer.address);
}

}  // namespace

std::string why_of_another_job(const Newcomer& newcomer, int num_nodes, const Values& settings) {
  if (!newcomer.is_readable) return "its hgtrain has another version than node 0's";
  const Join& join = newcomer.join;
  if (const std::string there = run_id(join.settings), here = run_id(settings); there != here)
    return fmt::format("it belongs to the run {} (--rdzv_id), and node 0 to {}", there, here);
  if (join.num_nodes != num_nodes)
    return fmt::format("it expects {} nodes, and node 0 expects {}", join.num_nodes, num_nodes);
  return "";
}

std::string why_refused(const Join& join, const std::vector<RosterHost>& hosts) {
  const int num_nodes = static_cast<int>(hosts.size());
  if (join.node == kAnyNode) return fmt::format("all {} nodes are here", num_nodes);
  if (join.node < 1 || join.node >= num_nodes)
    return fmt::format("the others of {} nodes have the numbers 1 to {}", num_nodes, num_nodes - 1);
  const RosterHost& host = hosts[static_cast<std::size_t>(join.node)];
  if (is_taken(host))
    return fmt::format("there is a node {} already: {}", join.node, host.spec.name);
  if (host.is_left_out && host.spec.name != node_name(join, join.node, hosts))
    return fmt::format("{} is left out for the rest of the job: {}", host.spec.name, host.why_away);
  if (join.workers > 0 && host.spec.workers > 0 && join.workers != host.spec.workers)
    return fmt::format("it starts {} worker{}, and node 0 expects {} of it", join.workers,
                       join.workers == 1 ? "" : "s", host.spec.workers);
  return "";
}

JoiningNodes::JoiningNodes(asio::io_context& io, std::vector<RosterHost>& hosts,
                           const Rendezvous& rendezvous, Events events)
    : io_(io),
      hosts_(hosts),
      events_(std::move(events)),
      rendezvous_(rendezvous),
      is_elsewhere_(
          in_own_thread([address = rendezvous.address] { return is_address_elsewhere(address); })),
      timer_(io),
      listener_(
          io,
          rendezvous.listener ? std::move(*rendezvous.listener) : listen_for_nodes(rendezvous.port),
          rendezvous.secret,
          {[this](const Newcomer& n) { on_join(n); },
           [this](const std::string& address) { on_other_secret(address); }}) {}

void JoiningNodes::start_waiting() {
  are_enough_ = false;
  deadline_ = Clock::now() + rendezvous_.join_timeout;
  if (rendezvous_.join_timeout <= kQuiet) return wait_until(deadline_);
  timer_.expires_after(kQuiet);
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    events_.notice(fmt::format("waiting for {} to join on port {}, up to {} s{}",
                               fmt::join(called(), ", "), listener_.port(),
                               rendezvous_.join_timeout.count(), doubt_about_address()));
    wait_until(deadline_);
  });
}

/// That the others may dial another machine; "" if they do not, or if that is not known yet.
std::string JoiningNodes::doubt_about_address() const {
  if (rendezvous_.address == "localhost" || is_loopback(rendezvous_.address))
    return fmt::format(
        "; {} is each machine itself: nodes on others must be told the name or address of this one",
        rendezvous_.address);
  if (!is_ready(is_elsewhere_) || !is_elsewhere_.get()) return "";
  return fmt::format(
      "; they dial {}, which is no address of this machine: if node 0 is to run there, this node "
      "needs another --node_rank",
      rendezvous_.address);
}

/// The names of the nodes that have not joined.
std::vector<std::string> JoiningNodes::called() const {
  std::vector<std::string> names;
  for (const RosterHost& host : hosts_)
    if (host.state == State::kCalled) names.push_back(host.spec.name);
  return names;
}

void JoiningNodes::last_call(bool are_enough) {
  if (std::exchange(are_enough_, are_enough) == are_enough) return;
  const Clock::time_point now = Clock::now();
  const Clock::time_point end = are_enough ? std::min(deadline_, now + kLastCall) : deadline_;
  wait_until(end);
  if (!are_enough) return;
  events_.notice(
      fmt::format("enough nodes are here; waiting up to {} s for others: {}",
                  std::chrono::ceil<std::chrono::seconds>(std::max(now, end) - now).count(),
                  fmt::join(called(), ", ")));
}

void JoiningNodes::wait_until(Clock::time_point time) {
  timer_.expires_at(time);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) report_missing();
  });
}

/// A node that is just joining is waited for: it answers, or its lease ends.
void JoiningNodes::report_missing() {
  bool is_one_joining = false;
  for (RosterHost& host : hosts_) {
    if (host.state != State::kCalled) continue;
    is_one_joining |= host.link != nullptr;
    if (!host.link)
      events_.missing(host, are_enough_ ? "it has not joined yet" : why_missing(host));
  }
  if (is_one_joining) wait_until(Clock::now() + std::chrono::seconds(1));
}

std::string JoiningNodes::why_missing(const RosterHost& host) const {
  const auto node = static_cast<int>(&host - hosts_.data());
  const auto refusal = refused_.contains(node) ? refused_.find(node) : refused_.find(kAnyNode);
  std::string out = fmt::format("it has not joined within {} s", rendezvous_.join_timeout.count());
  if (refusal != refused_.end()) out += "; " + refusal->second;
  if (!other_secrets_.empty())
    out += fmt::format("; dialled {}: {}", kOtherSecret, fmt::join(other_secrets_, ", "));
  return out + doubt_about_address();
}

/// Each address is named once, and few of them, because anybody can dial.
void JoiningNodes::on_other_secret(const std::string& address) {
  constexpr std::size_t kMaxNamed = 8;
  if (other_secrets_.size() < kMaxNamed && other_secrets_.insert(address).second)
    events_.notice(fmt::format("{} has dialled {}", address, kOtherSecret));
}

std::int64_t JoiningNodes::first_dialled_ns(const Join& join) {
  forget_old_dials();
  const std::int64_t now = now_ns();
  Dials& dials = dials_.try_emplace(join.id, Dials{now, now}).first->second;
  dials.last_ns = now;
  return dials.first_ns;
}

void JoiningNodes::forget_old_dials() {
  std::erase_if(dials_, [now = now_ns()](const auto& dials) {
    return now - dials.second.last_ns > kRecent.count();
  });
}

void JoiningNodes::on_join(Newcomer newcomer) try {
  const bool is_one = newcomer.join.node >= 0 && newcomer.join.node < std::ssize(hosts_);
  const int wanted = is_one ? newcomer.join.node : kAnyNode;
  auto [in, out] = newcomer.carrier->start();
  const auto refuse = [&, &to = out](const std::string& why) {
    dials_.erase(newcomer.join.id);
    refused_[wanted] = fmt::format("{} is refused: {}", newcomer_name(newcomer), why);
    events_.notice(refused_[wanted]);
    send_last(Refused{why}, to);
  };
  const int num_nodes = static_cast<int>(hosts_.size());
  if (const std::string why = why_of_another_job(newcomer, num_nodes, rendezvous_.settings);
      !why.empty())
    return refuse(why);
  if (exit_code_) return tell_end(newcomer, std::move(in), std::move(out));
  const std::int64_t since_ns = first_dialled_ns(newcomer.join);
  if (newcomer.join.node == kAnyNode) newcomer.join.node = free_number(newcomer.join, hosts_);
  const auto let_dial_again = [&] {
    log_info("{} cannot join yet, and dials again", newcomer_name(newcomer));
  };
  if (may_replace(newcomer.join, hosts_, since_ns)) return let_dial_again();
  if (const std::string why = why_refused(newcomer.join, hosts_); !why.empty()) return refuse(why);
  RosterHost& host = hosts_[static_cast<std::size_t>(newcomer.join.node)];
  if (!events_.lets_join(host)) return let_dial_again();
  dials_.erase(newcomer.join.id);
  host.carrier = newcomer.carrier;
  host.node_id = newcomer.join.id;
  host.our_address = newcomer.our_address;
  host.machine = newcomer.join.machine;
  host.spec.name = node_name(newcomer.join, newcomer.join.node, hosts_);
  if (newcomer.join.workers > 0) host.spec.workers = newcomer.join.workers;
  name_differences(newcomer);
  refused_.erase(newcomer.join.node);
  refused_.erase(wanted);
  events_.joined(host, std::move(in), std::move(out));
} catch (const std::exception& e) {  // this process has no more descriptors
  events_.notice(fmt::format("{} cannot join: {}", newcomer_name(newcomer), e.what()));
}

/// The same config may be written in many ways, so the node is not refused for it.
void JoiningNodes::name_differences(const Newcomer& newcomer) {
  constexpr std::size_t kMaxShown = 5;  // it may be another config altogether
  const Join& join = newcomer.join;
  Values here = rendezvous_.settings;
  std::erase_if(here, [&](const auto& setting) { return !join.settings.contains(setting.first); });
  std::vector<std::string> all = differences(join.settings, here);
  if (!join.config.empty())
    if (const auto keys = differences(join.config, rendezvous_.config); !keys.empty())
      all.push_back("its config is written otherwise: " + listed(keys, kMaxShown));
  for (const std::string& text : all)
    if (named_.emplace(join.node, text).second)
      events_.notice(fmt::format("{}: {}; node 0's counts", newcomer_name(newcomer), text));
}

bool JoiningNodes::dials_again(const RosterHost& host) const {
  return rendezvous_.rejoins && host.link->has_given_up_here();
}

/// Tells a node that dials after the end of the job how that was, and waits until it knows.
void JoiningNodes::tell_end(const Newcomer& newcomer, OwnedFd in, OwnedFd out) {
  LateNode& late = late_.emplace_back(newcomer);
  late.link.emplace(io_, std::move(in), std::move(out),
                    FrameLink::Events{[this, &late](const Frame& frame) {
                                        if (frame.kind == MessageKind::kJobEnded) on_told(late);
                                      },
                                      [this, &late](const std::string&) { on_told(late); }});
  late.link->send(JobEnded{*exit_code_});
}

void JoiningNodes::on_told(LateNode& late) {
  if (std::exchange(late.knows_end, true)) return;
  const std::string& id = late.newcomer.join.id;
  dials_.erase(id);
  for (RosterHost& host : hosts_) host.knows_end |= host.node_id == id;
  if (!dismissed_) late.newcomer.carrier->leave_open();
  check_dismissed();
}

void JoiningNodes::dismiss(int exit_code, std::chrono::seconds limit, std::function<void()> done) {
  exit_code_ = exit_code;
  dismissed_ = std::move(done);
  forget_old_dials();
  for (RosterHost& host : hosts_)
    if (host.carrier && !host.knows_end) host.link->send(JobEnded{exit_code});
  timer_.expires_after(limit);
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    for (RosterHost& host : hosts_) host.knows_end = true;
    dials_.clear();
    check_dismissed();
  });
  check_dismissed();
}

void JoiningNodes::check_dismissed() {
  const bool all_know = std::ranges::all_of(
      hosts_, [](const RosterHost& host) { return !host.carrier || host.knows_end; });
  if (!all_know || !dials_.empty() || !dismissed_) return;
  timer_.cancel();
  for (RosterHost& host : hosts_)
    if (host.carrier) host.carrier->leave_open();
  for (const LateNode& late : late_) late.newcomer.carrier->leave_open();
  std::exchange(dismissed_, nullptr)();
}

}  // namespace hgt
