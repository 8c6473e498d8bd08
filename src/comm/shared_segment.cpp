#include "shared_segment.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr mode_t kOwnerOnly = 0600;

std::string path_of(const std::string& name) {
  return "/dev/shm/" + name;
}

/// A lock on the byte of a rank: of the open file, not of the process, so threads can be ranks too.
struct flock lock_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

SharedSegment SharedSegment::create(const std::string& name, std::size_t bytes) {
  File file = File::open(path_of(name), O_RDWR | O_CREAT | O_EXCL, kOwnerOnly, ErrorKind::kPeer);
  try {
    file.truncate(static_cast<std::int64_t>(bytes));
    // A page that cannot be had later is a SIGBUS.
    file.reserve(static_cast<std::int64_t>(bytes));
    return SharedSegment(std::move(file), bytes);
  } catch (const Error&) {
    ::unlink(path_of(name).c_str());
    throw;
  }
}

SharedSegment SharedSegment::open(const std::string& name, std::size_t bytes) {
  File file = File::open(path_of(name), O_RDWR | O_NOFOLLOW, 0, ErrorKind::kPeer);
  if (file.size() != static_cast<std::int64_t>(bytes))
    throw Error(ErrorKind::kPeer, file.path() + " has another size");
  return SharedSegment(std::move(file), bytes);
}

SharedSegment::SharedSegment(File file, std::size_t bytes) : file_(std::move(file)), bytes_(bytes) {
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (start == MAP_FAILED) throw_file_error("map", file_.path(), errno, ErrorKind::kPeer);
  data_ = static_cast<std::byte*>(start);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : file_(std::move(other.file_)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void SharedSegment::remove_name() const {
  ::unlink(file_.path().c_str());
}

void SharedSegment::hold(int rank) const {
  struct flock lock = lock_of(rank);
  if (fcntl(file_.fd(), F_OFD_SETLK, &lock) < 0)
    throw_file_error("lock", file_.path(), errno, ErrorKind::kPeer);
}

bool SharedSegment::is_held(int rank) const {
  struct flock lock = lock_of(rank);
  return fcntl(file_.fd(), F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

}  // namespace hgt
