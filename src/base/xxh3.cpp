#include "hgtrain/base/xxh3.h"

#include <new>
#include <xxhash.h>

namespace hgt {

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Xxh3::digest() const {
  return XXH3_64bits_digest(state_.get());
}

std::uint64_t xxh3(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3(std::string_view text) {
  return xxh3(std::as_bytes(std::span(text)));
}

}  // namespace hgt
