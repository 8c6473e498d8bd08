#pragma once

#include <filesystem>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// A fresh folder that is removed with all in it at the end of the test. Thousands of small files
/// are better held in memory, if there is such a file system.
class TemporaryFolder {
 public:
  enum Where { kDisk, kMemory };
  explicit TemporaryFolder(Where where = kDisk)
      : path_((base(where) / ("hgtrain_test_" + random_suffix())).string()) {
    make_folders(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::filesystem::path base(Where where) {
    const bool memory = where == kMemory && std::filesystem::is_directory("/dev/shm");
    return memory ? "/dev/shm" : std::filesystem::temp_directory_path();
  }
  std::string path_;
};

}  // namespace hgt
