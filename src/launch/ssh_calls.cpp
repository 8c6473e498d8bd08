#include "ssh_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ssh_host.h"

namespace hgt {

using State = Candidate::State;

SshCalls::SshCalls(asio::io_context& io, std::vector<RosterHost>& hosts, const std::string& program,
                   Events events)
    : io_(io), hosts_(hosts), program_(program), events_(std::move(events)) {}

void SshCalls::call_next() {
  auto open = std::ranges::count_if(
      hosts_, [](const RosterHost& h) { return h.ssh && h.state == State::kCalled; });
  for (RosterHost& host : hosts_) {
    if (host.is_here || host.ssh || host.state != State::kCalled || open == kMaxSshCalls) continue;
    ++open;
    call(host);
  }
}

void SshCalls::call(RosterHost& host) {
  host.ssh = std::make_unique<SshHost>(
      io_, host.spec, program_,
      SshHost::Events{
          [this, &host](std::size_t bytes) { events_.notice(text_of_sending(host.spec, bytes)); },
          [this, &host](OwnedFd in, OwnedFd out) {
            events_.answered(host, std::move(in), std::move(out));
          },
          [this, &host](const std::string& why) { events_.failed(host, why); }});
}

}  // namespace hgt
