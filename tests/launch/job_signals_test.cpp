#include "job_signals.h"

#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

struct Heard {
  asio::io_context io;
  std::vector<int> heard;
  JobSignals signals{io, [this](int signal) { heard.push_back(signal); }};
};

}  // namespace

TEST_CASE("a signal that several agents report at nearly the same time is one signal") {
  Heard job;
  CHECK(job.signals.is_new(SIGTERM));
  CHECK_FALSE(job.signals.is_new(SIGTERM));
  CHECK(job.signals.is_new(SIGUSR1));
}

TEST_CASE("a signal that the user sends twice to this process is two signals") {
  Heard job;
  job.signals.start();
  CHECK(job.signals.is_new(SIGUSR2));
  raise(SIGUSR2);  // the first is the one that the agent has reported, too
  raise(SIGUSR2);
  while (job.heard.empty()) job.io.run_one();
  job.io.poll();
  CHECK(job.heard.size() == 1);
}

TEST_CASE("signals that mean nothing to a job are not new") {
  Heard job;
  CHECK_FALSE(job.signals.is_new(SIGWINCH));
}

TEST_CASE("the signal handlers are as before once the job has ended") {
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  { Heard job; }
  sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
}
