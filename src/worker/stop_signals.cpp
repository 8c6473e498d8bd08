#include "stop_signals.h"

#include <pthread.h>

namespace hgt {

StopSignals::StopSignals(std::atomic<bool>& stop) {
  sigemptyset(&signals_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  // These are sent to all processes of a job; the launcher tells the workers what to do about them.
  sigset_t job_signals;
  sigemptyset(&job_signals);
  for (const int signal : {SIGUSR2, SIGHUP}) sigaddset(&job_signals, signal);
  pthread_sigmask(SIG_BLOCK, &job_signals, nullptr);
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
