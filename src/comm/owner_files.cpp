#include "hgtrain/comm/owner_files.h"

#include <array>
#include <fcntl.h>
#include <list>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>

#include <fmt/format.h>

#include "hgtrain/comm/together.h"

#include "remote_file_ops.h"

namespace hgt {
namespace {

/// The stream between rank 0 and `rank`, for either of them.
OwnedFd connect_pair(ControlChannel& channel, const GroupOptions& options,
                     const std::string& address, int rank) {
  GroupOptions pair = options;
  pair.group = fmt::format("{}: files for rank {}", options.group, rank);
  pair.members = {0, rank};
  pair.size = 2;
  pair.rank = options.rank == 0 ? 0 : 1;
  std::vector<OwnedFd> sockets = connect_peers(channel, pair, address);
  OwnedFd socket = std::move(sockets[static_cast<std::size_t>(1 - pair.rank)]);
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  return socket;
}

/// Limits the time of each call to send or to receive.
void limit_waits(const OwnedFd& socket, std::chrono::milliseconds timeout) {
  const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket.get(), SOL_SOCKET, option, &limit, sizeof limit);
}

/// Rank 0's folders, each as it is called here and there: ranks may have other working folders.
std::vector<RemoteFolder> folders_of_first(Communicator& world,
                                           const std::vector<std::string>& mine) {
  const std::string text = run_together(world, [&] {
                             std::string out;
                             if (world.rank() == 0)
                               for (const std::string& path : mine)
                                 ((out += path) += '\0') += full_path(path) + '\0';
                             return out;
                           }).front();
  std::vector<RemoteFolder> out;
  for (const char* path = text.data(); path != text.data() + text.size();) {
    const std::string given = path, there = path + given.size() + 1;
    out.push_back({full_path(given), there});
    out.push_back({there, there});
    path += given.size() + there.size() + 2;
  }
  return out;
}

}  // namespace

struct OwnerFiles::Served {
  struct Peer {
    OwnedFd socket;
    FileService service;
    std::jthread thread{};  ///< ends with the stream
    Peer(OwnedFd stream, const std::vector<std::string>& paths, FileOps& ops)
        : socket(std::move(stream)), service(paths, ops) {}
  };
  std::list<Peer> peers;
};

struct OwnerFiles::Remote {
  RemoteFileOps ops;
  FileOpsOverride in_use{ops};
};

OwnerFiles::OwnerFiles(ControlChannel& channel, Communicator& world, const GroupOptions& options,
                       const std::string& address, const Folders& folders) {
  const std::vector<RemoteFolder> shared = folders_of_first(world, folders.paths);
  const std::vector<double> lacks =
      values_of_ranks(world, std::array{folders.are_here ? 0.0 : 1.0});
  for (int rank = 1; rank < world.size(); ++rank)
    if (lacks[static_cast<std::size_t>(rank)] > 0) ranks_without_.push_back(rank);
  if (ranks_without_.empty() || (world.rank() > 0 && folders.are_here)) return;
  if (world.rank() > 0) {
    OwnedFd socket = connect_pair(channel, options, address, world.rank());
    limit_waits(socket, options.timeout);
    remote_.reset(new Remote{.ops = {std::move(socket), shared, "rank 0"}});
    return;
  }
  std::vector<std::string> paths;
  for (const std::string& path : folders.paths) paths.push_back(full_path(path));
  served_ = std::make_unique<Served>();
  FileOps& ops = file_ops();
  for (const int rank : ranks_without_) {
    auto& peer =
        served_->peers.emplace_back(connect_pair(channel, options, address, rank), paths, ops);
    peer.thread = std::jthread([&peer] { serve_files(peer.socket, peer.service); });
  }
}

OwnerFiles::~OwnerFiles() = default;

void OwnerFiles::abort() noexcept {
  if (remote_) remote_->ops.abort();
  if (served_)
    for (const auto& peer : served_->peers) ::shutdown(peer.socket.get(), SHUT_RDWR);
}

}  // namespace hgt
