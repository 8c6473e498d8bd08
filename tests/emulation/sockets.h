#pragma once

#include <cstddef>
#include <string>
#include <sys/un.h>
#include <vector>

/// The sockets of a group of ranks, which are processes or threads of one machine: rank 0 has one
/// to each, the others have one to rank 0. Errors are kPeer.
namespace hgt::emulation {

class Sockets {
 public:
  /// `name`: of the group, on all ranks; unique on the machine.
  Sockets(const std::string& name, int rank, int size);
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  /// Continues to connect, without waiting. Whether whom this rank has a socket to is there.
  bool connect();
  void give(int rank, const void* data, std::size_t bytes) const;
  void take(int rank, void* data, std::size_t bytes) const;
  /// Who waits for this rank, or in it for another one, fails. Any thread may call it.
  void cut() const;

 private:
  void listen();
  bool accept_more();
  bool call_rank_0();

  const int rank_, size_;
  sockaddr_un address_{};     ///< of rank 0
  int listener_ = -1;         ///< of rank 0
  std::vector<int> sockets_;  ///< by rank; -1: none
};

}  // namespace hgt::emulation
