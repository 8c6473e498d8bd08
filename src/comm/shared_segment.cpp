#include "shared_segment.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

/// Where the link at `path` leads; "" if it cannot be read.
std::string target_of(const std::string& path) {
  std::array<char, 256> target;
  const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
  return bytes < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(bytes));
}

/// Nothing else limits the size of a memfd; without this the kernel would kill processes to make
/// room.
void require_room(std::size_t bytes) {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory / 2)
    throw Error(ErrorKind::kPeer,
                fmt::format("{} bytes are more than half of this machine's memory", bytes));
}

struct Descriptor {
  ~Descriptor() { ::close(fd); }
  const int fd;
};

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

// A name is /proc/PID/fd/FD/TOKEN: the maker's open descriptor, and the name of the memory file
// behind it. The token is random, so another machine cannot have a match by accident.

SharedSegment SharedSegment::create(std::size_t bytes) {
  require_room(bytes);
  const std::string token = "hgtrain-" + random_suffix() + random_suffix();
  const Descriptor made{::memfd_create(token.c_str(), MFD_CLOEXEC)};
  if (made.fd < 0) throw_file_error("make", token, errno, ErrorKind::kPeer);
  File file = File::open(fmt::format("/proc/self/fd/{}", made.fd), O_RDWR, 0, ErrorKind::kPeer);
  file.truncate(static_cast<std::int64_t>(bytes));
  // Without this, a page that cannot be allocated later would cause SIGBUS.
  file.reserve(static_cast<std::int64_t>(bytes));
  const std::string name = fmt::format("/proc/{}/fd/{}/{}", ::getpid(), file.fd(), token);
  return SharedSegment(name, std::move(file), bytes);
}

SharedSegment SharedSegment::open(const std::string& name, std::size_t bytes) {
  const std::size_t slash = std::min(name.rfind('/'), name.size());
  const std::string path = name.substr(0, slash);
  if (target_of(path) != "/memfd:" + name.substr(std::min(slash + 1, name.size())) + " (deleted)")
    throw Error(ErrorKind::kPeer, name + " belongs to another machine");
  File file = File::open(path, O_RDWR, 0, ErrorKind::kPeer);
  if (file.size() != static_cast<std::int64_t>(bytes))
    throw Error(ErrorKind::kPeer, name + " has another size");
  return SharedSegment(name, std::move(file), bytes);
}

SharedSegment::SharedSegment(std::string name, File file, std::size_t bytes)
    : name_(std::move(name)), file_(std::move(file)), bytes_(bytes) {
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (start == MAP_FAILED) throw_file_error("map", file_.path(), errno, ErrorKind::kPeer);
  data_ = static_cast<std::byte*>(start);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : name_(std::move(other.name_)),
      file_(std::move(other.file_)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, bytes_);
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
