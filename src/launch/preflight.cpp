#include "hgtrain/launch/preflight.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/text.h"
#include "hgtrain/machine/resources.h"

#include "program.h"

namespace hgt {
namespace {

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr std::int64_t kLittleDisk = 1024 * kMiB, kFullDisk = kMiB;
constexpr std::int64_t kShmPerWorker = 32 * kMiB;              // NCCL's buffers and data loaders
constexpr std::int64_t kFilesPerWorker = 5, kOtherFiles = 16;  // that an agent has open
constexpr std::int64_t kProcessesPerWorker = 2;                // it and its guard
constexpr std::int64_t kThreadsPerWorker = 32;
constexpr double kFarClockSeconds = 1;

using Hosts = std::vector<InspectedHost>;

class Checker {
 public:
  Checker(const Hosts& hosts, bool own_cpu_workers)
      : hosts_(hosts), own_cpu_workers_(own_cpu_workers) {
    for (const InspectedHost& host : hosts_) world_ += host.spec.workers;
  }

  Preflight check() {
    for (const InspectedHost& host : hosts_)
      if (const std::string& program = host.facts.missing_program; !program.empty())
        out_.errors.push_back(missing_environment(host.spec.name, program));
    for (const InspectedHost& host : hosts_) check_start(host);
    for (const InspectedHost& host : hosts_) {
      check_files(host);
      check_processes(host);
      check_memory(host);
      check_disk(host);
    }
    check_addresses();
    check_twice();
    check_clocks();
    compare("the NVIDIA driver", [](const HostFacts& f) { return f.driver; });
    std::set<std::string> libraries;
    for (const InspectedHost& host : hosts_)
      for (const auto& [name, version] : host.facts.libraries) libraries.insert(name);
    for (const std::string& name : libraries)
      compare(name, [&](const HostFacts& f) {
        const auto found = f.libraries.find(name);
        return found == f.libraries.end() ? std::string() : found->second;
      });
    if (hosts_.size() > 1)
      compare(
          "the MTU",
          [](const HostFacts& f) {
            return f.mtu == 0 ? "" : fmt::format("{} of {}", f.mtu, f.interface);
          },
          [](const HostFacts& f) { return std::to_string(f.mtu); },
          "; packets that are too large for one of them may be lost");
    return std::move(out_);
  }

 private:
  void refuse(const std::string& message, const std::string& hint) {
    out_.errors.emplace_back(ErrorKind::kDevice, message, hint);
  }
  void notice(const std::string& text) { out_.notices.push_back(text); }

  void check_start(const InspectedHost& host) {
    const HostFacts& facts = host.facts;
    if (facts.start_error.empty() || !facts.missing_program.empty()) return;
    const bool is_device = facts.start_error_kind == static_cast<int>(ErrorKind::kDevice);
    Error error(is_device ? ErrorKind::kDevice : ErrorKind::kConfig, facts.start_error,
                facts.start_hint);
    const std::string title = "host " + host.spec.name;
    if (!facts.start_error.starts_with(title + " ")) error.in(title);
    out_.errors.push_back(error);
  }

  void check_files(const InspectedHost& host) {
    const std::int64_t limit = host.facts.nofile;
    if (limit == kUnlimited || limit == 0) return;
    const std::int64_t needed =
        kOtherFiles + std::max<std::int64_t>(kFilesPerWorker * host.spec.workers, world_);
    if (limit < needed)
      refuse(fmt::format("on host {} only {} files may be open at once, and {} workers there need "
                         "{} or more",
                         host.spec.name, limit, host.spec.workers, needed),
             "raise nofile in /etc/security/limits.conf there, or `ulimit -n` in its shell's "
             "start-up file");
    else if (limit < kUsualFiles)
      notice(fmt::format("on host {} only {} files may be open at once (ulimit -n); {} is usual",
                         host.spec.name, limit, kUsualFiles));
  }

  void check_processes(const InspectedHost& host) {
    const std::int64_t limit = host.facts.nproc, workers = host.spec.workers;
    if (limit == kUnlimited || limit == 0) return;
    const std::int64_t ample = 4 * host.facts.cores + kThreadsPerWorker * workers;
    if (limit < kProcessesPerWorker * workers)
      refuse(fmt::format("on host {} the user may have {} processes, and {} workers there need {}",
                         host.spec.name, limit, workers, kProcessesPerWorker * workers),
             "raise nproc in /etc/security/limits.conf there, or `ulimit -u` in its shell's "
             "start-up file");
    else if (limit < ample)
      notice(
          fmt::format("on host {} the user may have only {} processes and threads (ulimit -u); "
                      "{} workers may start {}",
                      host.spec.name, limit, workers, ample));
  }

  void check_memory(const InspectedHost& host) {
    const HostFacts& facts = host.facts;
    if (facts.has_rdma && facts.memlock_bytes != kUnlimited)
      notice(
          fmt::format("on host {} locked memory is limited to {} MiB (ulimit -l), but InfiniBand "
                      "needs it unlimited",
                      host.spec.name, facts.memlock_bytes / kMiB));
    const std::int64_t shm = kShmPerWorker * host.spec.workers;
    if (own_cpu_workers_ || host.spec.workers < 2 || facts.machine.empty()) return;
    if (facts.shm_free_bytes < shm)
      notice(
          fmt::format("on host {} /dev/shm has {} MiB free, and {} workers that share memory may "
                      "need {} MiB (docker run --shm-size 1g, or --ipc host)",
                      host.spec.name, facts.shm_free_bytes / kMiB, host.spec.workers, shm / kMiB));
  }

  static std::string why_unwritable(const HostFacts& facts) {
    if (facts.disk_is_read_only) return "is read-only";
    if (facts.disk_free_bytes == 0) return "is on a disk that is full";
    if (facts.disk_free_bytes >= kFullDisk) return "";
    return fmt::format("is on a disk with {} KiB free, and logs need {} KiB",
                       facts.disk_free_bytes / kKiB, kFullDisk / kKiB);
  }

  void check_disk(const InspectedHost& host) {
    const HostFacts& facts = host.facts;
    if (facts.disk.empty()) return;
    if (const std::string why = why_unwritable(facts); !why.empty())
      refuse(
          fmt::format("on host {} logs cannot be written: {} {}", host.spec.name, facts.disk, why),
          "make room there, or name another folder: --log_dir, --run_dir");
    else if (facts.disk_free_bytes < kLittleDisk)
      notice(fmt::format("on host {} only {} MiB are free for logs, in {}", host.spec.name,
                         facts.disk_free_bytes / kMiB, facts.disk));
  }

  void check_addresses() {
    for (const InspectedHost& host : hosts_)
      if (host.facts.lacks_address)
        notice(
            fmt::format("{0} (addr= in the hostfile, or --master_addr) is no address of {1}: "
                        "unless the network translates it (NAT), others cannot reach {1} there",
                        host.spec.address, host.spec.name));
  }

  using Group = std::vector<const InspectedHost*>;  // in the order of the hosts

  static std::string names_of(const Group& group) {
    constexpr std::size_t kMaxNames = 8;
    std::vector<std::string> names;
    for (const InspectedHost* host : group) names.push_back(host->spec.name);
    if (names.size() > kMaxNames) return listed(names, kMaxNames);
    const std::string last = names.back();
    names.pop_back();
    return fmt::format("{} and {}", fmt::join(names, ", "), last);
  }

  static bool any_wants_gpus(const Group& group) {
    return std::ranges::any_of(group, [](const InspectedHost* host) {
      return host->spec.min_gpus > 0 || !host->spec.devices.empty();
    });
  }

  static bool is_one_machine(const Group& group) {
    return std::ranges::all_of(group, [&](const InspectedHost* host) {
      return !host->facts.machine.empty() && host->facts.machine == group[0]->facts.machine;
    });
  }

  /// GPUs that ranks of several hosts would use, and hosts that are one machine although nobody
  /// said so. Each group has one line, however many names a machine has.
  void check_twice() {
    std::map<std::string, Group> by_gpu, by_machine;
    for (const InspectedHost& host : hosts_) {
      for (const std::string& gpu : used_gpus(host))
        if (!gpu.empty()) by_gpu[gpu].push_back(&host);
      if (!host.facts.machine.empty()) by_machine[host.facts.machine].push_back(&host);
    }
    std::map<Group, std::vector<std::string>> shared;
    for (const auto& [gpu, group] : by_gpu)
      if (group.size() > 1) shared[group].push_back(gpu);
    std::set<const InspectedHost*> refused, sharing;
    for (const auto& [group, gpus] : shared) {
      const bool is_error = any_wants_gpus(group);
      (is_error ? refused : sharing).insert(group.begin(), group.end());
      if (is_error)
        refuse(fmt::format("ranks of hosts {} would use the same GPU{}: {}{}", names_of(group),
                           gpus.size() == 1 ? "" : "s", fmt::join(gpus, ", "),
                           is_one_machine(group) ? "; these hosts are one machine" : ""),
               "name a machine once, with all of its workers, or say which GPUs each has: "
               "gpus=0-3 in the hostfile");
    }
    for (const auto& [machine, group] : by_machine) {
      const bool is_known = std::ranges::all_of(
          group, [&](const InspectedHost* host) { return host->machine == group[0]->machine; });
      const auto is_in = [&](const auto& set) {
        return std::ranges::any_of(group, [&](const auto* host) { return set.contains(host); });
      };
      if (!is_known && !is_in(refused))
        notice(fmt::format("hosts {} are one machine{}", names_of(group),
                           is_in(sharing) ? ", and their ranks share its GPUs" : ""));
    }
  }

  void check_clocks() {
    std::vector<std::string> far;
    for (const InspectedHost& host : hosts_) {
      if (!host.clock) continue;
      const double ahead = static_cast<double>(host.clock->ahead_ns) * 1e-9;
      const double uncertainty = static_cast<double>(host.clock->uncertainty_ns) * 1e-9;
      if (std::abs(ahead) - uncertainty >= kFarClockSeconds)
        far.push_back(fmt::format("{} {:+.1f} s", host.spec.name, ahead));
    }
    if (!far.empty())
      notice(
          fmt::format("clocks differ from this machine's: {}; times in logs do not agree "
                      "(is NTP running?)",
                      fmt::join(far, ", ")));
  }

  using Text = std::function<std::string(const HostFacts&)>;

  void compare(const std::string& what, const Text& text) { compare(what, text, text, ""); }
  /// A notice if hosts of which a `text` is known have different `value`s.
  void compare(const std::string& what, const Text& text, const Text& value,
               const std::string& effect) {
    std::map<std::string, std::vector<std::string>> hosts_with;
    std::set<std::string> values;
    for (const InspectedHost& host : hosts_)
      if (const std::string said = text(host.facts); !said.empty()) {
        hosts_with[said].push_back(host.spec.name);
        values.insert(value(host.facts));
      }
    if (values.size() < 2) return;
    std::vector<std::string> list;
    for (const auto& [said, names] : hosts_with)
      list.push_back(fmt::format("{} on {}", said, fmt::join(names, ", ")));
    notice(fmt::format("{} differs between hosts: {}{}", what, fmt::join(list, "; "), effect));
  }

  const Hosts& hosts_;
  const bool own_cpu_workers_;
  std::int64_t world_ = 0;
  Preflight out_;
};

/// Of a number, or the beginning of a UUID.
std::string uuid_of(const std::string& device, const std::vector<std::string>& all) {
  std::size_t number = 0;
  const char* const end = device.data() + device.size();
  const auto [last, error] = std::from_chars(device.data(), end, number);
  if (error == std::errc() && last == end) return number < all.size() ? all[number] : "";
  for (const std::string& uuid : all)
    if (uuid.starts_with(device)) return uuid;
  return "";
}

}  // namespace

std::vector<std::string> used_gpus(const InspectedHost& host) {
  std::vector<std::string> out;
  for (const std::string& device : host.spec.devices)
    out.push_back(uuid_of(device, host.facts.all_gpus));
  if (!out.empty()) return out;
  for (int i = 0; i < host.spec.workers; ++i) {
    const auto at = static_cast<std::size_t>(host.first_local_rank + i);
    out.push_back(at < host.facts.gpus.size() ? host.facts.gpus[at] : "");
  }
  return out;
}

Preflight check_hosts(const std::vector<InspectedHost>& hosts, bool own_cpu_workers) {
  return Checker(hosts, own_cpu_workers).check();
}

}  // namespace hgt
