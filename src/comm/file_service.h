#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// A call of FileOps on its way to another rank, which runs the same program. `data_bytes` bytes
/// follow: the path (rename: two, with a zero byte between them), or what is written.
struct FileCall {
  enum Kind : std::uint32_t {
    kOpen,
    kPread,
    kPwrite,
    kFsync,
    kClose,
    kFstat,
    kStat,
    kTruncate,
    kAllocate,
    kList,
    kRename,
    kMakeFolder,
    kUnlink,
    kRemoveFolder,
  };
  Kind kind = kOpen;
  std::int32_t file = -1;  ///< as kOpen returned it
  std::int32_t flags = 0;
  std::uint32_t mode = 0;
  std::int64_t offset = 0;  ///< or a size
  std::uint32_t bytes = 0;  ///< to read
  std::uint32_t data_bytes = 0;
};

/// What the call returned. `data_bytes` bytes follow: what was read, a struct stat, or the names in
/// a folder, each ended by a zero byte.
struct FileAnswer {
  std::int64_t result = -1;
  std::int32_t error_number = 0;
  std::uint32_t data_bytes = 0;
};

/// The most bytes that may follow a call or an answer.
inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

/// The absolute path without "." and "..", in the form that calls have.
std::string full_path(const std::string& path);
/// Whether `path` is the folder or in it; both as full_path() makes them.
bool lies_in(const std::string& path, const std::string& folder);

/// Answers the calls of one rank, which it does not trust: files outside the folders, or files that
/// the rank has not opened, are errors (EACCES, EBADF).
class FileService {
 public:
  FileService(std::vector<std::string> folders, FileOps& ops)
      : folders_(std::move(folders)), ops_(ops) {}
  /// Closes what the rank has left open.
  ~FileService();
  FileService(const FileService&) = delete;
  FileService& operator=(const FileService&) = delete;

  /// `out` gets the data of the answer.
  FileAnswer answer(const FileCall& call, std::span<const std::byte> data,
                    std::vector<std::byte>& out);

 private:
  std::int64_t run(const FileCall& call, std::span<const std::byte> data,
                   std::vector<std::byte>& out);
  std::int64_t run_on_path(const FileCall& call, std::string_view text,
                           std::vector<std::byte>& out);
  std::int64_t run_on_file(const FileCall& call, std::span<const std::byte> data,
                           std::vector<std::byte>& out);
  bool is_allowed(const std::string& path) const;

  const std::vector<std::string> folders_;
  FileOps& ops_;
  std::set<int> open_;
};

}  // namespace hgt
