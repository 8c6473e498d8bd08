#include "ssh_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <asio/post.hpp>
#include <fmt/format.h>

#include "ssh_failure.h"
#include "ssh_host.h"

namespace hgt {

using State = Candidate::State;

SshCalls::SshCalls(asio::io_context& io, std::vector<RosterHost>& hosts, const std::string& program,
                   Events events, std::chrono::nanoseconds first_pause)
    : io_(io),
      hosts_(hosts),
      program_(program),
      events_(std::move(events)),
      first_pause_(first_pause) {}

void SshCalls::call_next() {
  auto open = std::ranges::count_if(
      hosts_, [](const RosterHost& h) { return h.ssh && h.state == State::kCalled; });
  for (RosterHost& host : hosts_) {
    if (host.is_here || host.ssh || host.state != State::kCalled || open == kMaxSshCalls) continue;
    ++open;
    call(host);
  }
  has_called_ = true;
}

void SshCalls::call(RosterHost& host) try {
  host.ssh = std::make_unique<SshHost>(
      io_, host.spec, program_,
      SshHost::Events{
          [this, &host](std::size_t bytes) { events_.notice(text_of_sending(host.spec, bytes)); },
          [this, &host](OwnedFd in, OwnedFd out) {
            events_.answered(host, std::move(in), std::move(out));
          },
          [this, &host](const std::string& why) { on_failed(host, why); }},
      SshHost::Purpose::kAgent, host.connect_limit);
} catch (const Error& e) {
  if (!has_called_) throw;
  host.state = State::kAway;
  host.why_away = e.message();
  asio::post(io_, [this, &host] { events_.failed(host, host.why_away); });
}

void SshCalls::on_failed(RosterHost& host, const std::string& why) {
  if (is_slow(why) && host.connect_limit == kConnectLimit) {
    host.connect_limit = kLongConnectLimit;
    return call_again(host, {});
  }
  if (!is_dropped(why)) return events_.failed(host, why);
  if (host.repeated_calls == kMaxRepeats)
    return events_.failed(host, fmt::format("{} ({} times)", why, kMaxRepeats + 1));
  if (!std::exchange(host.is_dropped_reported, true))
    events_.notice(
        fmt::format("host {} is called again, up to {} times, because its connection was dropped "
                    "before the login: {}",
                    host.spec.name, kMaxRepeats, why));
  const double factor = std::uniform_real_distribution(0.5, 1.5)(random_);
  call_again(host, std::chrono::duration_cast<std::chrono::nanoseconds>(
                       first_pause_ * factor * (1 << host.repeated_calls++)));
}

/// A host that waits for its next call still counts as one that is being called, which gives its
/// server more time.
void SshCalls::call_again(RosterHost& host, std::chrono::nanoseconds pause) {
  host.pause = std::make_unique<asio::steady_timer>(io_, pause);
  host.pause->async_wait([this, &host](const std::error_code& error) {
    if (error) return;
    host.ssh->close();
    asio::post(io_, [last = std::move(host.ssh)] {});  // the loop may still refer to it
    call(host);
  });
}

}  // namespace hgt
