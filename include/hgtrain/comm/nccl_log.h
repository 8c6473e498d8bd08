#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// Keeps in memory what NCCL logs about its connections while this lives. If the user has set
/// NCCL_DEBUG, NCCL logs where the user wants instead, and text() is empty. Make this before NCCL
/// is first used, because NCCL reads the variables that it sets only then.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;
  std::string text() const;

 private:
  int fd_ = -1;
};

/// The transports over which NCCL has connected this rank, by its log at level INFO:
/// "NET/IB/GDRDMA", "NET/Socket", "P2P", "SHM", ...; sorted, each once.
std::vector<std::string> nccl_transports(std::string_view log);

}  // namespace hgt
