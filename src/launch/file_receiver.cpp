#include "file_receiver.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/owned_fd.h"
#include "hgtrain/base/text.h"
#include "hgtrain/base/xxh3.h"

#include "hash_file.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPartBytes = 1 << 20;
constexpr std::int64_t kOpenBytes = 4 * kPartBytes;  // asked for, and not come yet
constexpr std::int64_t kSyncBytes = 64 << 20;        // so that no sync takes long
constexpr std::size_t kIdDigits = 16;

/// Removes what interrupted transfers of the file have left, except for the file `kept`, and for
/// those that are being written. What another user has left may stay.
void remove_partials(const std::string& path, const std::string& kept) {
  const std::string prefix = fs::path(path).filename().string() + ".part-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent_folder(path), ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kIdDigits ||
        name.find_first_not_of("0123456789abcdef", prefix.size()) != name.npos ||
        name == fs::path(kept).filename())
      continue;
    const OwnedFd part(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (part.get() >= 0 && ::flock(part.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry.path().c_str());
  }
}

}  // namespace

FileReceiver::FileReceiver(asio::io_context& io, FrameLink& link, PushFiles order)
    : io_(io), link_(link), order_(std::move(order)) {
  if (order_.sizes.size() != order_.files.size() || order_.times_ns.size() != order_.files.size())
    refuse_payload();
}

void FileReceiver::start() {
  attempt([this] { check_files(); });
}

/// Errors of this host's files are its answer.
void FileReceiver::attempt(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& e) {
    fail(error_from(e).message());
  }
}

void FileReceiver::fail(const std::string& why) {
  partial_.reset();
  if (!std::exchange(is_done_, true)) link_.send(FilesReady{why});
}

/// From the current one on, up to one that takes time.
void FileReceiver::check_files() {
  const bool sees_run = order_.mark.empty() || path_exists(fs::path(order_.folder) / order_.mark);
  const std::size_t count =
      std::min(order_.files.size(),
               sees_run ? order_.files.size() : static_cast<std::size_t>(order_.for_all));
  if (!std::exchange(has_told_, true)) tell_what_is_missing(count);
  for (; file_ < count; ++file_) {
    path_ = path_of_file();
    const bool exists = path_exists(path_);
    remove_partials(path_, exists ? "" : partial_path());
    if (!exists) return receive();
    if (!is_here()) return compare(path_);
  }
  is_done_ = true;
  link_.send(FilesReady{});
}

/// Of the first `count` files.
void FileReceiver::tell_what_is_missing(std::size_t count) {
  constexpr std::size_t kMaxNamed = 8;
  constexpr std::int64_t kMiB = 1 << 20;
  std::vector<std::string> names;
  std::int64_t bytes = 0, received = 0;
  for (file_ = 0; file_ < count; ++file_) {
    path_ = path_of_file();
    if (path_exists(path_)) continue;
    names.push_back(path_);
    bytes += size();
    if (!path_exists(partial_path())) continue;
    const std::int64_t there = File::open(partial_path(), O_RDONLY).size();
    if (there <= size()) received += there;
  }
  file_ = 0;
  if (names.empty()) return;
  const std::int64_t left = bytes - received;
  link_.send(Notice{
      fmt::format("host {} lacks {}: sending {}{}", order_.host, listed(names, kMaxNamed),
                  received > 0 ? "the remaining " : "",
                  left < kMiB ? fmt::format("{} KiB", (left + 1023) / 1024)
                              : fmt::format("{:.1f} MiB", static_cast<double>(left) / kMiB))});
}

/// If false, its content must be compared. Error(kData) if that differs.
bool FileReceiver::is_here() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) throw_file_error("read", path_, errno);
  if (S_ISREG(status.st_mode) && status.st_size != size())
    throw Error(
        ErrorKind::kData,
        fmt::format("{} has {} bytes there, and {} here; if it is removed there, this one is sent",
                    path_, status.st_size, size()));
  return modified_ns(status) == time_ns();
}

std::string FileReceiver::path_of_file() const {
  return fs::path(order_.folder) / order_.files[file_];
}

/// Hosts that share a file system do not write to the same file, nor to that of another version.
std::string FileReceiver::partial_path() const {
  return fmt::format("{}.part-{:0{}x}", path_,
                     xxh3(fmt::format("{} {} {}", host_name(), size(), time_ns())), kIdDigits);
}

void FileReceiver::receive() {
  make_folders(parent_folder(path_));
  partial_ = File::open(partial_path(), O_RDWR | O_CREAT);
  if (::flock(partial_->fd(), LOCK_EX | LOCK_NB) != 0)
    throw Error(ErrorKind::kData, fmt::format("another job is sending {} there", path_));
  if (partial_->size() > size()) partial_->truncate(0);  // it is none of ours
  received_ = pulled_ = partial_->size();
  const auto free = static_cast<std::int64_t>(fs::space(parent_folder(path_)).available);
  if (size() - received_ > free)
    throw Error(ErrorKind::kData, fmt::format("it lacks {} MiB of {}, but has only {} MiB free",
                                              (size() - received_) >> 20, path_, free >> 20));
  pull();
}

void FileReceiver::pull() {
  if (received_ == size()) return compare(partial_->path());
  while (pulled_ < size() && pulled_ - received_ < kOpenBytes) {
    const std::int64_t bytes = std::min(kPartBytes, size() - pulled_);
    link_.send(
        PullPart{static_cast<std::int32_t>(file_), pulled_, static_cast<std::int32_t>(bytes)});
    pulled_ += bytes;
  }
}

void FileReceiver::take(const FilePart& part) {
  if (is_done_) return;
  if (!partial_ || is_comparing_ || std::cmp_not_equal(part.file, file_) ||
      part.offset != received_ || part.bytes.empty() ||
      std::ssize(part.bytes) > pulled_ - received_)
    refuse_payload();
  attempt([&] {
    partial_->write_at(received_, std::as_bytes(std::span(part.bytes)));
    const std::int64_t before = std::exchange(received_, received_ + std::ssize(part.bytes));
    if (received_ == size() || received_ / kSyncBytes > before / kSyncBytes) partial_->sync();
    pull();
  });
}

/// With the launcher's.
void FileReceiver::compare(const std::string& path) {
  is_comparing_ = true;
  link_.send(PullHash{static_cast<std::int32_t>(file_)});
  hash_file(
      io_, path,
      [this](std::uint64_t hash) {
        hash_here_ = hash;
        check_hashes();
      },
      [this](const Error& why) { fail(why.message()); });
}

void FileReceiver::take(const FileHash& hash) {
  if (is_done_) return;
  if (!is_comparing_ || std::cmp_not_equal(hash.file, file_)) refuse_payload();
  hash_there_ = hash.hash;
  check_hashes();
}

void FileReceiver::check_hashes() {
  if (!hash_here_ || !hash_there_) return;
  attempt([this] { finish(); });
}

void FileReceiver::finish() {
  is_comparing_ = false;
  const bool is_same = std::exchange(hash_here_, {}) == std::exchange(hash_there_, {});
  if (!partial_ && !is_same)
    throw Error(
        ErrorKind::kData,
        fmt::format("{} is another file there than here; if it is removed there, this one is sent",
                    path_));
  if (partial_) {
    const File partial = *std::exchange(partial_, {});
    if (!is_same) {
      ::unlink(partial.path().c_str());
      throw Error(ErrorKind::kData,
                  fmt::format("{} was sent, but did not arrive whole, or has changed", path_));
    }
    const std::chrono::nanoseconds time(time_ns());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);  // may be before 1970
    const timespec when{seconds.count(), (time - seconds).count()};
    const timespec times[2] = {when, when};
    if (::futimens(partial.fd(), times) != 0) throw_file_error("change", partial.path(), errno);
    rename_path(partial.path(), path_);
    sync_folder(parent_folder(path_));
  }
  ++file_;
  check_files();
}

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace hgt
