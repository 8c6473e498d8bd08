#include "data_comparison.h"

#include <chrono>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/trace.h"

namespace hgt {
namespace {

constexpr const char* kKey = "the data of host 0";

std::string key_of(int host) {
  return fmt::format("the data of host {} are the same", host);
}

constexpr std::chrono::seconds kStopCheck{1};

/// Training goes before this thread on the cores and on the disk.
void take_low_priority() {
  constexpr int kOfProcess = 1, kIdleClass = 3, kClassShift = 13;  // linux/ioprio.h
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
  ::syscall(SYS_ioprio_set, kOfProcess, 0, kIdleClass << kClassShift);
}

}  // namespace

DataComparison::DataComparison(Store& store, int host, int num_hosts,
                               std::function<std::uint64_t(const std::stop_token&)> hash)
    : store_(store),
      host_(host),
      num_hosts_(num_hosts),
      hash_(std::move(hash)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void DataComparison::run(const std::stop_token& stop) {
  name_thread("data comparison");
  take_low_priority();
  try {
    const std::uint64_t hash = hash_(stop);
    if (stop.stop_requested()) return;
    log_info("the data has the hash {:016x}", hash);
    const std::string mine = std::to_string(hash);
    if (host_ == 0) {
      store_.set(kKey, mine);
      for (int host = 1; host < num_hosts_; ++host)
        if (!wait_for(key_of(host), stop)) return;
      are_all_same_ = true;
    } else if (const auto first = wait_for(kKey, stop)) {
      if (*first == mine)
        store_.set(key_of(host_), "");
      else
        differs_ = true;
    }
  } catch (const Error& e) {
    log_warning("the whole data was not compared with that of host 0: {}", e.message());
  }
}

/// nullopt if it has to stop before.
std::optional<std::string> DataComparison::wait_for(const std::string& key,
                                                    const std::stop_token& stop) {
  while (!stop.stop_requested()) try {
      return store_.get(key, kStopCheck);
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the other host still reads
    }
  return std::nullopt;
}

}  // namespace hgt
