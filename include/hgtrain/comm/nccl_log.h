#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// What NCCL writes about its connections while this lives, unless the user has set NCCL_DEBUG:
/// then it goes where the user wants, and nothing is known. NCCL reads the variables that this sets
/// when it is used first. It is kept in memory.
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
