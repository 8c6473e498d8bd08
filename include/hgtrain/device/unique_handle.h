#pragma once

#include <utility>

namespace hgt {

/// Owns a handle of a C library: `UniqueHandle<cudaEvent_t, cudaEventDestroy>`. The result of
/// Destroy is ignored, because a destructor cannot report it.
template <class Raw, auto Destroy>
class UniqueHandle {
 public:
  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Raw handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, Raw{})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~UniqueHandle() {
    if (handle_) (void)Destroy(handle_);
  }

  Raw get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Raw{}; }
  Raw release() noexcept { return std::exchange(handle_, Raw{}); }

 private:
  Raw handle_{};
};

}  // namespace hgt
