#include "look_at_host.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/owned_fd.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/machine/cuda_libraries.h"
#include "hgtrain/machine/library_search.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/machine/nvidia_files.h"
#include "hgtrain/machine/resources.h"

#include "ports.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLibrariesLimitNs = 3'000'000'000;

/// Two containers of one machine have networks of their own.
std::string machine_id() {
  const std::string boot = boot_id();
  std::error_code error;
  const std::string network = fs::read_symlink("/proc/self/ns/net", error);
  return boot.empty() || error ? "" : boot + " " + network;
}

void look_at_limits(HostFacts& out) {
  const Resources resources = resources_of();
  out.cpu = resources.cpu;
  out.cores = resources.usable_cores;
  out.memory_bytes = resources.memory_bytes;
  out.shm_free_bytes = resources.shm_free_bytes;
  for (const UserLimit& limit : resources.limits) {
    if (limit.name == "nofile") out.nofile = limit.soft;
    if (limit.name == "memlock") out.memlock_bytes = limit.soft;
    if (limit.name == "nproc") out.nproc = geteuid() == 0 ? kUnlimited : limit.soft;
  }
}

void look_at_disk(const fs::path& folder, HostFacts& out) {
  std::error_code error;
  fs::path at = folder;
  while (!fs::is_directory(at, error) && at.has_relative_path()) at = at.parent_path();
  struct statvfs disk {};
  if (::statvfs(at.c_str(), &disk) != 0) return;
  out.disk = at;
  out.disk_free_bytes = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
  out.disk_is_read_only = (disk.f_flag & ST_RDONLY) != 0;
}

/// Of a name, servers may need longer than a lease to say what its number is.
bool is_number(const std::string& address) {
  in6_addr unused;
  return inet_pton(AF_INET, address.c_str(), &unused) == 1 ||
         inet_pton(AF_INET6, address.c_str(), &unused) == 1;
}

void look_at_interface(const std::string& name, const std::string& address, HostFacts& out) {
  const Network network = look_at_network();
  for (const InfinibandPort& port : network.infiniband)
    out.has_rdma = out.has_rdma || port.state == "ACTIVE";
  out.interface = name.empty() ? interface_with(address) : name;
  for (const NetworkInterface& interface : network.interfaces)
    if (interface.name == out.interface) out.mtu = interface.mtu;
}

/// All that can be read from `fd` until the deadline.
std::string read_until(int fd, std::int64_t deadline_ns) {
  std::string out;
  std::array<char, 4096> part;
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    const std::int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
    if (left_ms <= 0 || ::poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return out;
    const ssize_t bytes = ::read(fd, part.data(), part.size());
    if (bytes <= 0) return out;
    out.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

/// In a process of its own, which ends with all that it has opened.
std::map<std::string, std::string> library_versions() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const OwnedFd in(ends[0]);
  OwnedFd out(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const fs::path folder = own_program().parent_path();
    std::string text;
    for (const CudaLibrary& library : cuda_libraries(cuda_library_folders(folder)))
      if (!library.version.empty()) text += library.name + "\t" + library.version + "\n";
    ::_exit(::write(out.get(), text.data(), text.size()) < 0);
  }
  out = OwnedFd();
  if (child < 0) return {};
  std::istringstream lines(read_until(in.get(), now_ns() + kLibrariesLimitNs));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::map<std::string, std::string> versions;
  std::string name, version;
  while (std::getline(lines, name, '\t') && std::getline(lines, version)) versions[name] = version;
  return versions;
}

void require_script(const std::string& path) {
  if (path.empty() || path_exists(path)) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("host {} has no file {}", host_name(), fs::absolute(path).string()),
              fs::path(path).is_absolute()
                  ? "every host needs the script at the same path"
                  : "every host needs the script, below the folder in which its part is started");
}

/// Whether there is anything of a token file, whose path is as in a config.
bool has_token_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) || fs::exists(path + ".idx", error) ||
         fs::exists(path + ".bin", error);
}

void require_token_files(const std::vector<std::string>& paths) {
  std::vector<std::string> missing;
  for (const std::string& path : paths)
    if (!has_token_file(path)) missing.push_back(fs::absolute(path));
  if (missing.empty()) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("host {} has no token file {}", host_name(), fmt::join(missing, ", nor ")),
      "`--distributed.push_data true` sends it there");
}

bool is_link(const std::string& path) {
  std::error_code error;
  return fs::is_symlink(path, error);
}

/// The program and the data may be relative to the folder.
void look_for_start(const Inspect& wanted, HostFacts& out) {
  try {
    enter_folder(wanted.work_folder);
    if (wanted.address.empty()) address_of(wanted.interface);
    if (is_link(wanted.program)) find_program(wanted.program, wanted.path);
    if (!wanted.command.empty()) find_program(wanted.command, wanted.path);
    require_script(wanted.script);
    require_token_files(wanted.token_files);
    if (!wanted.shared_file.empty() && !path_exists(wanted.shared_file))
      out.missing_run_dir = wanted.run_dir;
  } catch (const Error& e) {
    out.start_error = e.message();
    out.start_hint = e.hint();
    out.start_error_kind = e.exit_code();
  }
}

/// What `hgtrain doctor --json` prints; "" if it does not start.
std::string doctor_output() {
  return run_shell(shell_line({own_program()}) + " doctor --json </dev/null 2>/dev/null").second;
}

}  // namespace

HostFacts look_at_host(const Inspect& wanted, const std::string& address,
                       const VisibleDevices& devices) {
  HostFacts out;
  out.name = host_name();
  out.machine = machine_id();
  look_at_limits(out);
  look_at_interface(wanted.interface, wanted.address.empty() ? address : wanted.address, out);
  out.lacks_address = is_number(wanted.address) && is_address_elsewhere(wanted.address);
  if (!wanted.folder.empty()) look_at_disk(fs::absolute(wanted.folder), out);
  if (!wanted.program.empty() && ::access(wanted.program.c_str(), X_OK) != 0 &&
      !is_link(wanted.program))
    out.missing_program = wanted.program;
  look_for_start(wanted, out);
  out.driver = devices.machine.driver_version;
  if (out.driver.empty()) out.driver = look_for_nvidia().kernel_driver;
  for (const VisibleGpu& gpu : devices.gpus) {
    out.gpus.push_back(gpu.uuid);
    out.gpu_names.push_back(gpu.name);
  }
  for (const VisibleGpu& gpu : devices.machine.gpus) out.all_gpus.push_back(gpu.uuid);
  if (wanted.with_libraries && !devices.gpus.empty()) out.libraries = library_versions();
  if (wanted.with_doctor) out.doctor = doctor_output();
  out.wall_ns = clock_zero_ns();
  return out;
}

void enter_folder(const std::string& folder) {
  if (!folder.empty() && ::chdir(folder.c_str()) != 0)
    throw Error(
        ErrorKind::kConfig,
        fmt::format("host {} has no folder {}: {}", host_name(), folder, std::strerror(errno)),
        "start the job in a folder that every host has at the same path");
}

}  // namespace hgt
