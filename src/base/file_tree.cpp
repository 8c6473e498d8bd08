#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <sys/random.h>
#include <system_error>

#include <fmt/format.h>

#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

/// What stat says of `path`; nullopt if nothing is there.
std::optional<struct stat> status_of(const std::string& path, ErrorKind kind) {
  struct stat status {};
  if (file_ops().stat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error("access", path, errno, kind);
  return std::nullopt;
}

}  // namespace

void write_new_file(const std::string& path, std::string_view text) {
  File file = File::open(path, O_WRONLY | O_CREAT | O_EXCL);
  try {
    file.write(text);
    file.sync();
    file.close();
  } catch (const Error&) {
    file_ops().unlink(path.c_str());
    throw;
  }
}

void write_file_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, random_suffix());
  try {
    write_new_file(temporary, text);
    rename_path(temporary, path);
  } catch (const Error&) {
    file_ops().unlink(temporary.c_str());
    throw;
  }
  sync_folder(parent_folder(path));
}

bool path_exists(const std::string& path, ErrorKind kind) {
  return status_of(path, kind).has_value();
}

bool is_folder(const std::string& path, ErrorKind kind) {
  const auto status = status_of(path, kind);
  return status && S_ISDIR(status->st_mode);
}

void sync_folder(const std::string& path) {
  File::open(path, O_RDONLY | O_DIRECTORY).sync();
}

void make_folders(const std::string& path) {
  if (file_ops().mkdir(path.c_str(), 0777) == 0) return;
  if (errno == ENOENT && parent_folder(path) != path) {
    make_folders(parent_folder(path));
    if (file_ops().mkdir(path.c_str(), 0777) == 0) return;
  }
  const int error_number = errno;
  if (error_number != EEXIST || !is_folder(path))
    throw_file_error("make folder", path, error_number);
}

void rename_path(const std::string& from, const std::string& to) {
  if (file_ops().rename(from.c_str(), to.c_str()) < 0)
    throw_file_error("rename " + from + " to", to, errno);
}

void remove_file(const std::string& path) {
  if (file_ops().unlink(path.c_str()) < 0) throw_file_error("remove", path, errno);
}

void remove_tree(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return remove_file(path);
  for (const std::string& name : list_folder(path)) remove_tree(path + "/" + name);
  if (file_ops().rmdir(path.c_str()) < 0) throw_file_error("remove", path, errno);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  if (file_ops().list(path.c_str(), names) < 0) throw_file_error("list", path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

std::string free_path(const std::string& stem, const std::string& extension) {
  std::string path = stem + extension;
  for (int number = 2; path_exists(path); ++number)
    path = fmt::format("{}-{}{}", stem, number, extension);
  return path;
}

std::string parent_folder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string random_suffix() {
  std::uint32_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) throw_file_error("read", "random", errno);
  return fmt::format("{:08x}", bits);
}

}  // namespace hgt
