#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/base/file_ops.h"

#include "file_service.h"
#include "peer_sockets.h"

namespace hgt {

/// A folder of another rank, as full_path() makes its path.
struct RemoteFolder {
  std::string here;   ///< what this rank calls it
  std::string there;  ///< what its owner calls it
};

/// The file operations of a rank, of which those on paths in `folders` are done by another rank's
/// FileService. Their files have descriptors here that only these operations understand. A call
/// whose answer does not come throws Error(kPeer), and so do all later ones; only close() never
/// throws. O_DIRECT is an error there (EINVAL), as on file systems that cannot do it.
class RemoteFileOps final : public FileOps {
 public:
  /// `service` blocks, with a limit for each wait. `owner` names the other rank.
  RemoteFileOps(OwnedFd service, std::vector<RemoteFolder> folders, std::string owner)
      : service_(std::move(service)), folders_(std::move(folders)), owner_(std::move(owner)) {}

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t read(int fd, void* buffer, std::size_t bytes) override;
  ssize_t pread(int fd, void* buffer, std::size_t bytes, off_t offset) override;
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override;
  ssize_t pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) override;
  int fsync(int fd) override;
  int close(int fd) override;
  int fstat(int fd, struct stat* status) override;
  int stat(const char* path, struct stat* status) override;
  int ftruncate(int fd, off_t bytes) override;
  int fallocate(int fd, off_t bytes) override;
  int rename(const char* from, const char* to) override;
  int mkdir(const char* path, mode_t mode) override;
  int unlink(const char* path) override;
  int rmdir(const char* path) override;
  int list(const char* path, std::vector<std::string>& names) override;

  /// Ends the connection. Any thread may call it.
  void abort() noexcept;

 private:
  struct Open {
    std::int32_t file;   ///< the service's
    off_t position = 0;  ///< of read() and write()
  };
  /// The path as the service has it; nullopt if it is not in the folders.
  std::optional<std::string> remote(const std::string& path) const;
  std::optional<Open> opened(int fd);
  ssize_t advance(int fd, ssize_t bytes);
  /// Sends the call, and gets the answer and its data into `out`; sets errno.
  std::int64_t call(FileCall call, std::span<const std::byte> data, std::span<std::byte> out,
                    std::size_t* got = nullptr);
  int call_on_path(FileCall::Kind kind, const std::string& path, mode_t mode = 0);

  const OwnedFd service_;
  const std::vector<RemoteFolder> folders_;
  const std::string owner_;
  std::mutex calls_;  ///< held from a call to its answer
  bool is_lost_ = false;
  std::mutex mutex_;  ///< guards open_
  std::map<int, Open> open_;
};

/// Answers the calls that come through the socket, which blocks, until it ends.
void serve_files(const OwnedFd& socket, FileService& service);

}  // namespace hgt
