#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct XXH3_state_s;

namespace hgt {

/// Computes XXH3, 64 bits, of bytes that come piece by piece. Manifests and checkpoints hold this
/// hash of each file and tensor.
class Xxh3 {
 public:
  Xxh3();
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;  ///< of all bytes so far

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// The same hash of bytes that are all in memory.
std::uint64_t xxh3(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t xxh3(std::string_view text);

}  // namespace hgt
