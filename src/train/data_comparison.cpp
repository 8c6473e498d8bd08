#include "data_comparison.h"

#include <chrono>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/trace.h"

namespace hgt {
namespace {

constexpr const char* kKey = "the data of host 0";
constexpr std::chrono::seconds kStopCheck{1};

/// Training goes before this thread on the cores and on the disk.
void take_low_priority() {
  constexpr int kOfProcess = 1, kIdleClass = 3, kClassShift = 13;  // linux/ioprio.h
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
  ::syscall(SYS_ioprio_set, kOfProcess, 0, kIdleClass << kClassShift);
}

}  // namespace

DataComparison::DataComparison(Store& store, int host,
                               std::function<std::uint64_t(const std::stop_token&)> hash)
    : store_(store),
      host_(host),
      hash_(std::move(hash)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void DataComparison::run(const std::stop_token& stop) {
  name_thread("data comparison");
  take_low_priority();
  try {
    const std::uint64_t hash = hash_(stop);
    if (stop.stop_requested()) return;
    log_info("the data has the hash {:016x}", hash);
    if (host_ == 0) return store_.set(kKey, std::to_string(hash));
    differs_ = !is_first_hosts(hash, stop);
  } catch (const Error& e) {
    log_warning("the whole data was not compared with that of host 0: {}", e.message());
  }
}

/// True, too, if that is not known before it has to stop.
bool DataComparison::is_first_hosts(std::uint64_t hash, const std::stop_token& stop) {
  while (!stop.stop_requested()) try {
      return store_.get(kKey, kStopCheck) == std::to_string(hash);
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // host 0 still reads
    }
  return true;
}

}  // namespace hgt
