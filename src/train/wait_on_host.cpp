#include "wait_on_host.h"

#include <chrono>
#include <thread>

namespace hgt {
namespace {

constexpr std::chrono::microseconds kPollInterval{20};

}  // namespace

void wait_on_host(const CudaEvent& event, Communicator& comm) {
  while (!event.done()) {
    comm.check();
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace hgt
