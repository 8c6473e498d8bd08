#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/stat.h>

#include "support/temporary_folder.h"

namespace hgt {

/// A program named ssh, first in PATH, in place of the real one: it runs `script`, in which $host
/// is the host and $last what the login shell there gets.
class FakeSsh {
 public:
  explicit FakeSsh(const std::string& script) : path_(std::getenv("PATH")) {
    const std::string file = folder_ / "ssh";
    std::ofstream(file) << "#!/bin/sh\nfor word; do host=$last; last=$word; done\n" + script + "\n";
    chmod(file.c_str(), 0755);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~FakeSsh() { setenv("PATH", path_.c_str(), 1); }
  FakeSsh(const FakeSsh&) = delete;
  FakeSsh& operator=(const FakeSsh&) = delete;

 private:
  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace hgt
