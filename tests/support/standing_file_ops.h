#pragma once

#include <condition_variable>
#include <mutex>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// The real calls, but a write waits until go_on(): a file server that does not answer.
class StandingFileOps final : public FileOps {
 public:
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    {
      std::unique_lock lock(mutex_);
      goes_on_.wait(lock, [this] { return is_going_; });
    }
    return FileOps::write(fd, buffer, bytes);
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    is_going_ = true;
    goes_on_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable goes_on_;
  bool is_going_ = false;
};

}  // namespace hgt
