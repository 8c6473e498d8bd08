#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"

namespace hgt {

// Everything here goes through the table of base/file_ops.h, repeats interrupted calls and short
// reads and writes, and throws Error(kData) with the path and errno's text where a call fails:
//   cannot write run/checkpoints/step_00000100.tmp-6b1f/model.safetensors: No space left on device

/// Throws the Error for a failed call: "cannot ACTION PATH: " and the text of `error_number`.
[[noreturn]] void throw_file_error(std::string_view action, const std::string& path,
                                   int error_number, ErrorKind kind = ErrorKind::kData);

/// An open file or folder, closed on destruction (close-on-exec; errors of that close are lost: a
/// writer who cares calls close()). Movable; one thread at a time, but read_at and write_at from
/// any number. Errors have the kind given to open().
class File {
 public:
  /// `flags` and `mode` as open(2): O_RDONLY; O_WRONLY | O_CREAT | O_EXCL; ... Never waits: a pipe
  /// is refused, and so is whatever is not a regular file if it is to be read (a folder:
  /// O_DIRECTORY).
  static File open(const std::string& path, int flags, mode_t mode = 0666,
                   ErrorKind kind = ErrorKind::kData);
  /// For reading what the user names as input: any kind of file, and "-" for standard input. A
  /// named pipe or terminal that sends nothing for `wait_ms` is an Error.
  static File open_input(const std::string& path, ErrorKind kind, int wait_ms = 60'000);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_; }
  std::int64_t size() const;

  /// Reads up to `buffer.size()` bytes at the file's position; fewer only at the end of the file.
  std::size_t read(std::span<std::byte> buffer);
  /// Fills `buffer` from `offset`; a file that ends before is an Error.
  void read_at(std::int64_t offset, std::span<std::byte> buffer) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void truncate(std::int64_t bytes);
  /// Takes the disk space of the first `bytes` now, so that a full disk shows before the work
  /// starts. Nothing happens on file systems that cannot.
  void reserve(std::int64_t bytes);
  /// What was written is on the disk on return. Never call it again after it threw: the kernel may
  /// have dropped the data, and a second fsync would report success.
  void sync();
  void close();

 private:
  File(std::string path, int fd, ErrorKind kind) noexcept
      : path_(std::move(path)), fd_(fd), kind_(kind) {}
  [[noreturn]] void fail(const char* action) const;
  void wait_for_input() const;
  std::string path_;
  int fd_ = -1;
  ErrorKind kind_;
  int wait_ms_ = kNeverWaits;
  static constexpr int kNeverWaits = -1;  ///< reads of files and of standard input
};

/// The whole file; Error(kind) if it cannot be read or is larger than `max_bytes`.
std::string read_file(const std::string& path, std::int64_t max_bytes,
                      ErrorKind kind = ErrorKind::kData);
/// The same of File::open_input.
std::string read_input(const std::string& path, std::int64_t max_bytes, ErrorKind kind);

/// Creates the file and puts `text` on the disk (fsync). The name is durable only after
/// sync_folder.
void write_new_file(const std::string& path, std::string_view text);

/// Replaces the file as a whole: after a crash it holds the old text or the new, never a part.
/// Durable on return (temporary file beside it, fsync, rename, fsync of the folder).
void write_file_atomically(const std::string& path, std::string_view text);

/// Whether a file or folder is there, links followed. Error(kind) if that cannot be told: no
/// permission, a name that is too long, a link that leads to itself, a disk that fails.
bool path_exists(const std::string& path, ErrorKind kind = ErrorKind::kData);
/// The same, and it is a folder.
bool is_folder(const std::string& path, ErrorKind kind = ErrorKind::kData);
/// Makes the names in a folder durable.
void sync_folder(const std::string& path);
/// Makes a folder and those above it, without complaint where it is there already.
void make_folders(const std::string& path);
/// rename(2). The change is durable only after sync_folder of the parent.
void rename_path(const std::string& from, const std::string& to);
void remove_file(const std::string& path);
/// Removes a file or folder with all in it; links are removed, not followed.
void remove_tree(const std::string& path);
/// The names in a folder, sorted, without "." and "..".
std::vector<std::string> list_folder(const std::string& path);
/// "a/b" of "a/b/c", "." of "c".
std::string parent_folder(const std::string& path);
/// Eight random hex digits, for temporary names.
std::string random_suffix();

}  // namespace hgt
