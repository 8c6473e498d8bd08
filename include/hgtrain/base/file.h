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

// Everything here goes through the table of base/file_ops.h and repeats interrupted calls and short
// reads and writes. If a call fails, it throws Error(kData) with the path and errno's text:
//   cannot write run/checkpoints/step_00000100.tmp-6b1f/model.safetensors: No space left on device

/// Throws the Error for a failed call: "cannot ACTION PATH: " and the text of `error_number`.
[[noreturn]] void throw_file_error(std::string_view action, const std::string& path,
                                   int error_number, ErrorKind kind = ErrorKind::kData);

/// Writes as much of `text` as it can, and throws nothing. Returns how many bytes were written, and
/// errno of what stopped it, or 0.
std::pair<std::size_t, int> write_bytes(int fd, std::string_view text);

/// An open file or folder. The descriptor is close-on-exec. The destructor closes it and ignores
/// errors; call close() to see them. Movable. Only one thread may use it at a time, but any number
/// may call read_at and write_at. Errors have the kind given to open().
class File {
 public:
  /// `flags` and `mode` are those of open(2): O_RDONLY; O_WRONLY | O_CREAT | O_EXCL; ... Never
  /// waits: a pipe is refused. For reading, only regular files are accepted, and folders with
  /// O_DIRECTORY.
  static File open(const std::string& path, int flags, mode_t mode = 0666,
                   ErrorKind kind = ErrorKind::kData);
  /// Opens an input that the user names, for reading: any kind of file, or "-" for standard input.
  /// If a named pipe or terminal sends nothing for `wait_ms`, that is an Error.
  static File open_input(const std::string& path, ErrorKind kind, int wait_ms = 60'000);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_; }
  std::int64_t size() const;

  /// Reads up to `buffer.size()` bytes at the file's position; fewer only at the end of the file.
  std::size_t read(std::span<std::byte> buffer);
  /// Fills `buffer` from `offset`; throws an Error if the file ends before `buffer` is full.
  void read_at(std::int64_t offset, std::span<std::byte> buffer) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  void truncate(std::int64_t bytes);
  /// Allocates the disk space of the first `bytes` now, so that a full disk is noticed before the
  /// work starts. Does nothing on file systems that cannot do this.
  void reserve(std::int64_t bytes);
  /// On return, everything written is on the disk. Never call it again after it threw: the kernel
  /// may have dropped the data, and a second fsync would report success.
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
  static constexpr int kNeverWaits = -1;  ///< for files and standard input
};

/// The whole file; Error(kind) if it cannot be read or is larger than `max_bytes`.
std::string read_file(const std::string& path, std::int64_t max_bytes,
                      ErrorKind kind = ErrorKind::kData);
/// The same for a file opened with File::open_input.
std::string read_input(const std::string& path, std::int64_t max_bytes, ErrorKind kind);

/// Creates the file and puts `text` on the disk (fsync); if that fails, no file is left. The name
/// is durable only after sync_folder.
void write_new_file(const std::string& path, std::string_view text);

/// Replaces the file as a whole: after a crash it holds the old text or the new, never a part.
/// Durable on return (temporary file in the same folder, fsync, rename, fsync of the folder).
void write_file_atomically(const std::string& path, std::string_view text);

/// Whether a file or folder exists; links are followed. Throws Error(kind) if that cannot be
/// determined: no permission, a name that is too long, a link to itself, a failing disk.
bool path_exists(const std::string& path, ErrorKind kind = ErrorKind::kData);
/// Whether a folder exists; links and errors as for path_exists().
bool is_folder(const std::string& path, ErrorKind kind = ErrorKind::kData);
/// Makes the names in a folder durable.
void sync_folder(const std::string& path);
/// Creates a folder and those above it. It is no error if the folder exists already.
void make_folders(const std::string& path);
/// rename(2). The change is durable only after sync_folder of the parent.
void rename_path(const std::string& from, const std::string& to);
void remove_file(const std::string& path);
/// Removes a file or folder with all in it; links are removed, not followed.
void remove_tree(const std::string& path);
/// The names in a folder, sorted, without "." and "..".
std::vector<std::string> list_folder(const std::string& path);
/// The first of STEM + EXTENSION, STEM-2 + EXTENSION, STEM-3 + EXTENSION, ... that does not exist.
std::string free_path(const std::string& stem, const std::string& extension = "");
/// "a/b" of "a/b/c", "." of "c".
std::string parent_folder(const std::string& path);
/// Eight random hex digits, for temporary names.
std::string random_suffix();

}  // namespace hgt
