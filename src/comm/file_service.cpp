#include "file_service.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>

namespace hgt {
namespace {

std::int64_t fail(int error_number) {
  errno = error_number;
  return -1;
}

void put_status(const struct stat& status, std::vector<std::byte>& out) {
  out.resize(sizeof status);
  std::memcpy(out.data(), &status, sizeof status);
}

std::int64_t put_names(const std::vector<std::string>& names, std::vector<std::byte>& out) {
  std::string text;
  for (const std::string& name : names) (text += name) += '\0';
  if (text.size() > kMaxFileBytes) return fail(EOVERFLOW);
  out.resize(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return 0;
}

}  // namespace

std::string full_path(const std::string& path) {
  std::string full = std::filesystem::absolute(path).lexically_normal().string();
  while (full.size() > 1 && full.back() == '/') full.pop_back();
  return full;
}

bool lies_in(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

FileService::~FileService() {
  for (const int file : open_) ops_.close(file);
}

FileAnswer FileService::answer(const FileCall& call, std::span<const std::byte> data,
                               std::vector<std::byte>& out) {
  out.clear();
  FileAnswer answer;
  answer.result = run(call, data, out);
  if (answer.result < 0) {
    answer.error_number = errno;
    out.clear();
  }
  answer.data_bytes = static_cast<std::uint32_t>(out.size());
  return answer;
}

bool FileService::is_allowed(const std::string& path) const {
  return path.starts_with('/') && path.find('\0') == std::string::npos && path == full_path(path) &&
         std::ranges::any_of(folders_, [&](const auto& folder) { return lies_in(path, folder); });
}

std::int64_t FileService::run(const FileCall& call, std::span<const std::byte> data,
                              std::vector<std::byte>& out) {
  switch (call.kind) {
    case FileCall::kOpen:
    case FileCall::kStat:
    case FileCall::kList:
    case FileCall::kRename:
    case FileCall::kMakeFolder:
    case FileCall::kUnlink:
    case FileCall::kRemoveFolder:
      return run_on_path(call, {reinterpret_cast<const char*>(data.data()), data.size()}, out);
    default:
      return open_.contains(call.file) ? run_on_file(call, data, out) : fail(EBADF);
  }
}

std::int64_t FileService::run_on_path(const FileCall& call, std::string_view text,
                                      std::vector<std::byte>& out) {
  const std::size_t end = call.kind == FileCall::kRename ? text.find('\0') : text.size();
  const std::string path(text.substr(0, end));
  if (!is_allowed(path)) return fail(EACCES);
  switch (call.kind) {
    case FileCall::kOpen: {
      const int file = ops_.open(path.c_str(), call.flags | O_CLOEXEC, call.mode);
      if (file >= 0) open_.insert(file);
      return file;
    }
    case FileCall::kStat: {
      struct stat status {};
      const int result = ops_.stat(path.c_str(), &status);
      put_status(status, out);
      return result;
    }
    case FileCall::kList: {
      std::vector<std::string> names;
      return ops_.list(path.c_str(), names) < 0 ? -1 : put_names(names, out);
    }
    case FileCall::kRename: {
      const std::string to(end < text.size() ? text.substr(end + 1) : "");
      return is_allowed(to) ? ops_.rename(path.c_str(), to.c_str()) : fail(EACCES);
    }
    case FileCall::kMakeFolder:
      return ops_.mkdir(path.c_str(), call.mode);
    case FileCall::kUnlink:
      return ops_.unlink(path.c_str());
    default:
      return ops_.rmdir(path.c_str());
  }
}

std::int64_t FileService::run_on_file(const FileCall& call, std::span<const std::byte> data,
                                      std::vector<std::byte>& out) {
  switch (call.kind) {
    case FileCall::kPread: {
      out.resize(std::min<std::size_t>(call.bytes, kMaxFileBytes));
      const ssize_t bytes = ops_.pread(call.file, out.data(), out.size(), call.offset);
      out.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
      return bytes;
    }
    case FileCall::kPwrite:
      return ops_.pwrite(call.file, data.data(), data.size(), call.offset);
    case FileCall::kFsync:
      return ops_.fsync(call.file);
    case FileCall::kFstat: {
      struct stat status {};
      const int result = ops_.fstat(call.file, &status);
      put_status(status, out);
      return result;
    }
    case FileCall::kTruncate:
      return ops_.ftruncate(call.file, call.offset);
    case FileCall::kAllocate:
      return ops_.fallocate(call.file, call.offset);
    case FileCall::kClose:
      open_.erase(call.file);
      return ops_.close(call.file);
    default:
      return fail(ENOSYS);
  }
}

}  // namespace hgt
