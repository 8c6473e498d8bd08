#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "file_service.h"

namespace {

/// Does nothing, and ends the process if it is asked for what a rank must not reach.
class StrictOps final : public hgt::FileOps {
 public:
  int open(const char* path, int, mode_t) override {
    check(path);
    return *open_.insert(next_++).first;
  }
  ssize_t pread(int fd, void*, std::size_t bytes, off_t) override {
    return check(fd), static_cast<ssize_t>(bytes / 2);
  }
  ssize_t pwrite(int fd, const void*, std::size_t bytes, off_t) override {
    return check(fd), static_cast<ssize_t>(bytes);
  }
  int fsync(int fd) override { return check(fd); }
  int close(int fd) override {
    check(fd);
    open_.erase(fd);
    return 0;
  }
  int fstat(int fd, struct stat*) override { return check(fd); }
  int stat(const char* path, struct stat*) override { return check(path); }
  int ftruncate(int fd, off_t) override { return check(fd); }
  int fallocate(int fd, off_t) override { return check(fd); }
  int rename(const char* from, const char* to) override { return check(from) + check(to); }
  int mkdir(const char* path, mode_t) override { return check(path); }
  int unlink(const char* path) override { return check(path); }
  int rmdir(const char* path) override { return check(path); }
  int list(const char* path, std::vector<std::string>&) override { return check(path); }
  ~StrictOps() override {
    if (!open_.empty()) __builtin_trap();
  }

 private:
  static int check(const char* path) {
    const std::string text = path;
    if ((text != "/run" && !text.starts_with("/run/")) ||
        (text + "/").find("/../") != std::string::npos)
      __builtin_trap();
    return 0;
  }
  int check(int fd) const {
    if (!open_.contains(fd)) __builtin_trap();
    return 0;
  }
  std::set<int> open_;
  int next_ = 3;
};

}  // namespace

/// Any bytes are calls, each with a byte that says how much data it has.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  StrictOps ops;
  hgt::FileService service({"/run"}, ops);
  std::vector<std::byte> out;
  std::span<const std::byte> left(reinterpret_cast<const std::byte*>(data), size);
  while (left.size() > sizeof(hgt::FileCall)) {
    hgt::FileCall call;
    std::memcpy(&call, left.data(), sizeof call);
    const std::size_t bytes =
        std::min(left.size() - sizeof call - 1, std::to_integer<std::size_t>(left[sizeof call]));
    const auto answer = service.answer(call, left.subspan(sizeof call + 1, bytes), out);
    if (answer.data_bytes != out.size() || (answer.result < 0 && !out.empty())) __builtin_trap();
    left = left.subspan(sizeof call + 1 + bytes);
  }
  return 0;
}
