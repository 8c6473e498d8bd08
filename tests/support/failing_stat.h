#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "hgtrain/base/file_ops.h"

namespace hgt {

/// The real calls, but the disk cannot say whether files whose path ends in `end` are there.
class FailingStat : public FileOps {
 public:
  explicit FailingStat(std::string end) : end_(std::move(end)) {}
  int stat(const char* path, struct stat* status) override {
    if (!std::string_view(path).ends_with(end_)) return FileOps::stat(path, status);
    errno = EIO;
    return -1;
  }

 private:
  std::string end_;
};

}  // namespace hgt
