#include "hgtrain/wire/job_key.h"

#include <cerrno>
#include <cstring>
#include <sys/random.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

JobKey JobKey::random() {
  JobKey key;
  if (getrandom(key.bytes_.data(), key.bytes_.size(), 0) != static_cast<ssize_t>(key.bytes_.size()))
    throw Error(ErrorKind::kDevice, "the kernel gives no random numbers for the job's key",
                "a filter of system calls, as containers have it, must allow getrandom");
  return key;
}

JobKey JobKey::parse(std::string_view hex) {
  JobKey key;
  if (hex.size() != 2 * key.bytes_.size()) return {};
  for (std::size_t i = 0; i < key.bytes_.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return {};
    key.bytes_[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return key;
}

std::string JobKey::hex() const {
  std::string out;
  for (const std::uint8_t byte : bytes_) out += fmt::format("{:02x}", byte);
  return out;
}

bool JobKey::matches(const JobKey& other) const noexcept {
  // Volatile, so that the compiler does not leave the loop at the first difference.
  volatile std::uint8_t difference = 0;
  volatile std::uint8_t any = 0;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    difference = difference | (bytes_[i] ^ other.bytes_[i]);
    any = any | bytes_[i];
  }
  return difference == 0 && any != 0;
}

}  // namespace hgt
