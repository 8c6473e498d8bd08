#pragma once

#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <catch2/catch.hpp>

#include "hgtrain/wire/frame.h"
#include "hgtrain/wire/job_key.h"

namespace hgt {

/// The launcher's end, driven by hand.
class FakeAgent {
 public:
  FakeAgent() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fd_ = ends[0];
    setenv("HGTRAIN_CONTROL_FD", std::to_string(ends[1]).c_str(), 1);
    setenv("HGTRAIN_JOB_KEY", key.hex().c_str(), 1);
    setenv("RANK", "3", 1);
  }
  ~FakeAgent() { hang_up(); }

  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void stop_reading() { REQUIRE(shutdown(fd_, SHUT_RD) == 0); }
  void write(const std::string& bytes) {
    REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// The next frame of that kind; others are skipped.
  Frame expect(MessageKind kind) {
    for (;;) {
      while (auto frame = frames_.next())
        if (frame->kind == kind) return *frame;
      char buffer[4096];
      const ssize_t bytes = ::recv(fd_, buffer, sizeof buffer, 0);
      REQUIRE(bytes > 0);
      frames_.feed({buffer, static_cast<std::size_t>(bytes)});
    }
  }

  const JobKey key = JobKey::random();

 private:
  int fd_;
  FrameReader frames_;
};

}  // namespace hgt
