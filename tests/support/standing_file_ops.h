#pragma once

#include <atomic>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// The real calls, but a write waits until go_on(): a file server that does not answer.
class StandingFileOps final : public FileOps {
 public:
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    is_going_.wait(false);
    return FileOps::write(fd, buffer, bytes);
  }
  void go_on() {
    is_going_ = true;
    is_going_.notify_all();
  }

 private:
  std::atomic<bool> is_going_ = false;
};

}  // namespace hgt
