#include "wait_clock.h"

#include "hgtrain/base/clock.h"

#include "host_copies.h"

namespace hgt {

void WaitClock::begin_step() {
  Step& next = step(++begun_);
  next.used = 0;
  next.ms = 0;
}

void WaitClock::begin() {
  Step& now = step(begun_);
  if (stream_.device().is_cpu()) {
    now.begun_ns = now_ns();
    return;
  }
  if (now.used == now.events.size())
    now.events.push_back({CudaEvent(stream_.queue()), CudaEvent(stream_.queue())});
  now.events[now.used].begun.record(stream_.queue());
}

void WaitClock::end() {
  Step& now = step(begun_);
  if (stream_.device().is_cpu())
    now.ms += ms_since(now.begun_ns);
  else
    now.events[now.used++].ended.record(stream_.queue());
}

double WaitClock::take_ms(Communicator& comm) {
  const Step& taken = step(++taken_);
  double ms = taken.ms;
  for (std::size_t i = 0; i < taken.used; ++i) {
    const auto& [begun, ended] = taken.events[i];
    // A step that offloads its update has its result before the device has passed all its waits.
    wait_on_host(ended, comm);
    ms += CudaEvent::elapsed_ms(begun, ended);
  }
  return ms;
}

}  // namespace hgt
