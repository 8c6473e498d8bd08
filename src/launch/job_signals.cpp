#include "job_signals.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr int kWatched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr std::int64_t kSameSignalNs = 2'000'000'000;

}  // namespace

std::optional<int> exit_code_without_ranks(int signal, bool own_workers) {
  if (signal == SIGUSR2 || (signal == SIGUSR1 && !own_workers)) return std::nullopt;
  return own_workers ? kExitStoppedEarly : 128 + signal;
}

JobSignals::Handlers::Handlers() {
  for (const int signal : kWatched) sigaction(signal, nullptr, &before_[signal]);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;  // a console without a reader is an error code
  sigaction(SIGPIPE, &ignore, &before_[SIGPIPE]);
}

JobSignals::Handlers::~Handlers() {
  for (const auto& [signal, handler] : before_) sigaction(signal, &handler, nullptr);
}

JobSignals::JobSignals(asio::io_context& io, std::function<void(int signal)> on_signal)
    : signals_(io), on_signal_(std::move(on_signal)) {
  for (const int signal : kWatched)
    // nohup asks for SIGHUP to be ignored; that a shell lets its background jobs ignore SIGINT
    // does not keep anybody from sending it on purpose.
    if (signal != SIGHUP || !handlers_.is_ignored(SIGHUP)) signals_.add(signal);
}

void JobSignals::start() {
  signals_.async_wait([this](const std::error_code& error, int signal) {
    if (error) return;
    if (is_news(signal, /*is_ours=*/true)) on_signal_(signal);
    start();
  });
}

bool JobSignals::is_new(int signal) {
  return std::ranges::find(kWatched, signal) != std::end(kWatched) &&
         is_news(signal, /*is_ours=*/false);
}

bool JobSignals::is_news(int signal, bool is_ours) {
  Last& last = last_[signal];
  const std::int64_t now = now_ns();
  const bool is_same = last.at_ns != 0 && now - last.at_ns < kSameSignalNs &&
                       !(is_ours && std::exchange(last.is_ours, true));
  if (!is_same) last = {now, is_ours};
  return !is_same;
}

}  // namespace hgt
