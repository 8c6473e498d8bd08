#pragma once

#include <filesystem>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// A fresh folder that is removed with all in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / ("hgtrain_test_" + random_suffix()))
                  .string()) {
    make_folders(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hgt
