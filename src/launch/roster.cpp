#include "roster.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/host.h"

namespace hgt {
namespace {

constexpr std::ptrdiff_t kMaxCalls = 8;  // at once; sshd's own MaxStartups drops some above 10

[[noreturn]] void throw_no_descriptor() {
  throw Error(ErrorKind::kDevice, fmt::format("no socket: {}", std::strerror(errno)),
              "too many files are open; raise the limit with `ulimit -n`");
}

OwnedFd copy_of(const OwnedFd& fd) {
  OwnedFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (copy.get() < 0) throw_no_descriptor();
  return copy;
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

Roster::Roster(asio::io_context& io, OutputSink& console, std::chrono::milliseconds lease,
               Events events)
    : io_(io), console_(console), lease_(lease), events_(std::move(events)), fence_timer_(io) {}

void Roster::add_this_machine(const Agent::Context& context, int num_ranks) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_no_descriptor();
  OwnedFd ours(ends[0]), theirs(ends[1]);
  OwnedFd our_copy = copy_of(ours), their_copy = copy_of(theirs);
  agent_ = std::make_unique<Agent>(context, std::move(theirs), std::move(their_copy));
  Host& host = hosts_.emplace_back();
  host.spec = {.name = host_name(), .workers = num_ranks};
  connect(host, std::move(ours), std::move(our_copy));
  host.has_answered = true;
  check_ready();
}

void Roster::call(const std::vector<JobHost>& hosts, const std::string& program) {
  program_ = program;
  hosts_.resize(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts_[i].spec = hosts[i];
  call_next();
}

void Roster::call_next() {
  if (is_fenced_) return;
  auto calls = std::count_if(hosts_.begin(), hosts_.end(),
                             [](const Host& h) { return h.ssh && !h.has_answered; });
  for (Host& host : hosts_) {
    if (host.ssh || host.has_answered || calls == kMaxCalls) continue;
    ++calls;
    host.ssh = std::make_unique<SshHost>(
        io_, host.spec, program_,
        SshHost::Events{[this, &host](OwnedFd in, OwnedFd out) {
                          connect(host, std::move(in), std::move(out));
                        },
                        [this, &host](const std::string& why) { on_unusable(host, why); }});
  }
}

void Roster::call_lost() {
  is_ready_ = false;
  std::int64_t fence_ns = 0;
  std::string names;
  for (Host& host : hosts_) {
    if (!host.is_lost) continue;
    names += (names.empty() ? "" : ", ") + host.spec.name;
    fence_ns = std::max(fence_ns, host.link->fenced_ns());
    const JobHost spec = host.spec;
    lost_.push_back(std::exchange(host, {}));
    host.spec = spec;
  }
  if (names.empty()) return check_ready();
  const std::chrono::nanoseconds wait(std::max<std::int64_t>(0, fence_ns - now_ns()));
  events_.notice(
      fmt::format("{} {} called again in {:.0f} s, when nothing of the job is left there", names,
                  names.find(',') == std::string::npos ? "is" : "are",
                  std::ceil(std::chrono::duration<double>(wait).count())));
  is_fenced_ = true;
  fence_timer_.expires_after(wait);
  fence_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    is_fenced_ = false;
    call_next();
  });
}

void Roster::connect(Host& host, OwnedFd in, OwnedFd out) {
  host.link = std::make_unique<AgentLink>(
      io_, host.spec.name, std::move(in), std::move(out), console_,
      AgentLink::Events{[this, &host](AgentLink&, const Frame& frame) { on_frame(host, frame); },
                        events_.notice,
                        [this, &host](AgentLink&, const std::string& why) { on_lost(host, why); }});
  if (host.ssh) host.link->start_lease(lease_);
}

void Roster::on_frame(Host& host, const Frame& frame) {
  if (frame.kind == MessageKind::kAgentHello)
    return on_hello(host, decode_payload<AgentHello>(frame.payload));
  if (!host.has_answered) throw Error(ErrorKind::kPeer, "its first message is not a hello");
  if (!is_ready_) return;  // of the last attempt
  events_.frame(*host.link, frame);
}

void Roster::on_hello(Host& host, const AgentHello& hello) {
  if (host.has_answered) throw Error(ErrorKind::kPeer, "it said hello twice");
  if (hello.version != kAgentVersion)
    return on_unusable(host, "its hgtrain is of another version than this one");
  if (hello.gpus < host.spec.min_gpus)
    return on_unusable(host,
                       fmt::format("programs see {} there, and {} are asked for",
                                   hello.gpus == 1 ? "1 GPU" : fmt::format("{} GPUs", hello.gpus),
                                   host.spec.min_gpus));
  if (host.spec.workers == 0) host.spec.workers = std::max(1, hello.gpus);
  host.address = hello.address;
  host.has_answered = true;
  check_ready();
}

void Roster::on_lost(Host& host, const std::string& why) {
  const std::string said = host.ssh ? host.ssh->last_words() : "";
  const std::string& reason = said.empty() ? why : said;
  if (host.ssh) host.ssh->kill();
  if (!is_ready_) return on_unusable(host, reason);
  host.is_lost = true;
  events_.lost(*host.link, reason);
}

/// A host that is lost while others are called cannot be used either.
void Roster::on_unusable(Host& host, const std::string& why) {
  unusable_.add({ErrorKind::kDevice, fmt::format("host {} cannot be used: {}", host.spec.name, why),
                 hint_for_ssh(host.spec, why)});
  host.has_answered = true;
  check_ready();
}

void Roster::check_ready() {
  if (!std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.has_answered; }))
    return call_next();
  if (const Error* const why = unusable_.all()) return events_.unusable(*why);
  is_ready_ = true;
  events_.ready();
}

std::vector<HostRanks> Roster::hosts() const {
  std::vector<HostRanks> out;
  int first_rank = 0;
  for (const Host& host : hosts_) {
    out.push_back({host.link.get(), first_rank, host.spec.workers, host.spec});
    first_rank += host.spec.workers;
  }
  return out;
}

int Roster::num_ranks() const {
  const HostRanks last = hosts().back();
  return last.first_rank + last.num_ranks;
}

std::string Roster::master_address() const {
  const JobHost& first = hosts_[0].spec;
  if (hosts_.size() == 1) return first.address.empty() ? "127.0.0.1" : first.address;
  if (first.address.empty() && !first.interface.empty()) return "";
  const std::string& address = first.address.empty() ? hosts_[0].address : first.address;
  if (!address.empty() && !is_loopback(address)) return address;
  throw Error(ErrorKind::kConfig,
              fmt::format("{} host {} at {}, where other hosts cannot reach it",
                          first.address.empty() ? "ssh reaches" : "the workers look for",
                          first.name, address.empty() ? "an unknown address" : address),
              "--master_addr with its address in the network of the others");
}

}  // namespace hgt
