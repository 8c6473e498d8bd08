#include "direct_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "hgtrain/base/file_ops.h"

namespace hgt {
namespace {

/// Calls `call(done)`, which reads or writes some bytes, until all `bytes` are done or it returns
/// none or an error; returns how many are done. The caller tries the rest through the page cache,
/// which reports the error.
template <class Call>
std::int64_t repeat(std::int64_t bytes, const Call& call) {
  std::int64_t done = 0;
  while (done < bytes && done % DirectFile::kAlignment == 0) {
    const ssize_t now = call(done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    done += now;
  }
  return done;
}

}  // namespace

DirectFile::DirectFile(const std::string& path, int flags, bool direct)
    : file_(File::open(path, flags)) {
  if (!direct) return;
  direct_fd_ = file_ops().open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0);
  if (direct_fd_ < 0 && errno != EINVAL && errno != EOPNOTSUPP)
    throw_file_error("open", path, errno);
}

DirectFile::~DirectFile() {
  if (direct_fd_ >= 0) file_ops().close(direct_fd_);
}

void DirectFile::read_aligned(std::int64_t offset, std::span<std::byte> out) {
  std::int64_t done = 0;
  const std::int64_t wanted =
      std::min(static_cast<std::int64_t>(out.size()), file_.size() - offset);
  if (direct_fd_ >= 0)
    done = repeat(wanted, [&](std::int64_t at) {
      return file_ops().pread(direct_fd_, out.data() + at,
                              out.size() - static_cast<std::size_t>(at), offset + at);
    });
  if (done < wanted)
    file_.read_at(offset + done, out.subspan(static_cast<std::size_t>(done),
                                             static_cast<std::size_t>(wanted - done)));
}

void DirectFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  const auto end = offset + static_cast<std::int64_t>(bytes.size());
  const std::int64_t first = (offset + kAlignment - 1) / kAlignment * kAlignment;
  const std::int64_t last = end / kAlignment * kAlignment;
  const auto between = [&](std::int64_t begin, std::int64_t until) {
    return bytes.subspan(static_cast<std::size_t>(begin - offset),
                         static_cast<std::size_t>(until - begin));
  };
  if (direct_fd_ < 0 || first >= last) return file_.write_at(offset, bytes);
  file_.write_at(offset, between(offset, first));
  const std::span<const std::byte> pages = between(first, last);
  const std::int64_t done = repeat(last - first, [&](std::int64_t at) {
    return file_ops().pwrite(direct_fd_, pages.data() + at,
                             pages.size() - static_cast<std::size_t>(at), first + at);
  });
  file_.write_at(first + done, between(first + done, end));
}

void DirectFile::close() {
  if (const int fd = std::exchange(direct_fd_, -1); fd >= 0) file_ops().close(fd);
  file_.close();
}

}  // namespace hgt
