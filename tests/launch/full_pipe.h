#pragma once

#include <string>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// A pipe that is full: who writes to it waits until somebody reads.
class FullPipe {
 public:
  FullPipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reader_ = OwnedFd(ends[0]);
    writer_ = OwnedFd(ends[1]);
    const int bytes = fcntl(writer(), F_GETPIPE_SZ);
    const std::string text(static_cast<std::size_t>(bytes), '.');
    REQUIRE(::write(writer(), text.data(), text.size()) == bytes);
  }

  int reader() const { return reader_.get(); }
  int writer() const { return writer_.get(); }
  void close_reader() { reader_ = OwnedFd(); }
  /// What is read until no process can write any more.
  std::string read_all() {
    writer_ = OwnedFd();
    std::string got;
    char part[65536];
    for (ssize_t bytes; (bytes = ::read(reader(), part, sizeof part)) > 0;)
      got.append(part, static_cast<std::size_t>(bytes));
    return got;
  }

 private:
  OwnedFd reader_, writer_;
};

}  // namespace hgt
