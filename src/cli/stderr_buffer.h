#pragma once

#include <cstdint>
#include <streambuf>

namespace hgt {

/// A stream buffer that writes to a descriptor at once. If the disk is full or the reader is gone,
/// it drops what it cannot write. As soon as it can write again, it says how much was dropped, and
/// goes back to writing everything.
class StderrBuffer final : public std::streambuf {
 public:
  explicit StderrBuffer(int fd) : fd_(fd) {}

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize bytes) override;

 private:
  const int fd_;
  std::int64_t dropped_bytes_ = 0;
  int error_number_ = 0;  ///< why they were dropped
};

}  // namespace hgt
