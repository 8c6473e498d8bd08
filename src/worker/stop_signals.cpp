#include "stop_signals.h"

#include <pthread.h>

namespace hgt {

StopSignals::StopSignals(std::atomic<bool>& stop) {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this, &stop] {
    int signal = 0;
    while (sigwait(&signals_, &signal) == 0 && !closing_) stop = true;
  });
}

StopSignals::~StopSignals() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

}  // namespace hgt
