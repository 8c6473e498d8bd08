#include "hgtrain/comm/nccl_log.h"

#include <cstdlib>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

namespace hgt {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

/// "NET/IB/GDRDMA" of "NET/IB/0/GDRDMA(PCI)", "P2P" of "P2P/CUMEM/read": a network, and whether it
/// reads the GPU's memory itself; of others the kind alone.
std::string name_of(std::string_view via) {
  via = via.substr(0, via.find_first_of(" \r\n"));
  const std::size_t kind = via.find('/');
  if (via.substr(0, kind) != "NET") return std::string(via.substr(0, kind));
  const std::size_t network = via.find('/', kind + 1);
  const bool is_direct = via.find("/GDRDMA") != std::string_view::npos;
  return std::string(via.substr(0, network)) + (is_direct ? "/GDRDMA" : "");
}

}  // namespace

NcclLog::NcclLog() {
  if (std::getenv("NCCL_DEBUG") != nullptr) return;
  fd_ = ::memfd_create("NCCL's log", MFD_CLOEXEC);
  if (fd_ < 0) return;
  ::setenv("NCCL_DEBUG", "INFO", 0);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM", 0);
  ::setenv("NCCL_DEBUG_FILE", fmt::format("/proc/{}/fd/{}", ::getpid(), fd_).c_str(), 0);
}

NcclLog::~NcclLog() {
  if (fd_ >= 0) ::close(fd_);
}

std::string NcclLog::text() const {
  std::string out;
  char buffer[4096];
  for (ssize_t bytes;
       fd_ >= 0 && out.size() < kMaxBytes &&
       (bytes = ::pread(fd_, buffer, sizeof buffer, static_cast<off_t>(out.size()))) > 0;)
    out.append(buffer, static_cast<std::size_t>(bytes));
  return out;
}

std::vector<std::string> nccl_transports(std::string_view log) {
  std::set<std::string> found;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size() - 1);
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end + 1);
    const std::size_t channel = line.find("NCCL INFO Channel "), via = line.find(" via ");
    if (channel == std::string_view::npos || via == std::string_view::npos || via < channel)
      continue;
    found.insert(name_of(line.substr(via + 5)));
  }
  return {found.begin(), found.end()};
}

}  // namespace hgt
