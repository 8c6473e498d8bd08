#pragma once

#include <cstdint>
#include <streambuf>

namespace hgt {

/// A stream buffer over a descriptor that is written at once, and that neither a full disk nor a
/// reader that is gone breaks: what cannot be written is dropped, and how much it was is said there
/// as soon as that is possible again. Text after that is written as before.
class StderrBuffer final : public std::streambuf {
 public:
  explicit StderrBuffer(int fd) : fd_(fd) {}

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize bytes) override;

 private:
  const int fd_;
  std::int64_t dropped_bytes_ = 0;
  int error_number_ = 0;  ///< why they were
};

}  // namespace hgt
