#pragma once

#include <cstdint>
#include <type_traits>

namespace hgt {

/// Fetches x[0, count) into the caches, for writing if T is not const: `locality` is
/// __builtin_prefetch's, 3 for the first level and 2 for the second.
template <int locality = 3, class T>
void fetch(T* x, std::int64_t count) {
  constexpr std::int64_t kLineBytes = 64;
  for (std::int64_t i = 0; i < count; i += kLineBytes / std::int64_t{sizeof(T)})
    __builtin_prefetch(x + i, !std::is_const_v<T>, locality);
}

}  // namespace hgt
