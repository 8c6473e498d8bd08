#include "device_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>

#include "hgtrain/base/error.h"

#include "sanitizer.h"

namespace hgt::emulation {
namespace {

constexpr std::size_t kPage = 4096, kGuardBytes = 64 << 10, kAlignment = 256;

/// What a band is filled with, again and again: a signalling NaN in fp32 and bf16, which no
/// arithmetic gives, a NaN in fp16, and negative as an integer. Each allocation has its own, so
/// that what is copied from one band to another shows as well.
using Fill = std::uint16_t;
Fill next_fill() {
  static Fill count = 0;
  return static_cast<Fill>(0xff81 + count++ % 62);
}

struct Allocation {
  std::size_t bytes;
  std::byte* mapping;
  std::size_t mapped;
  Fill fill;

  /// The pages between the two guards; the allocation ends as close to the second as its alignment
  /// lets it.
  std::byte* begin() const { return mapping + kGuardBytes; }
  std::byte* end() const { return mapping + mapped - kGuardBytes; }
};

std::mutex g_mutex;
std::map<std::byte*, Allocation> g_allocations;
std::map<std::byte*, std::size_t> g_pinned;  ///< bytes

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// A byte of a band: at even addresses it is the fill's first one.
std::byte fill_byte(const std::byte* at, Fill fill) {
  return static_cast<std::byte>(reinterpret_cast<std::uintptr_t>(at) % 2 == 0 ? fill : fill >> 8);
}

bool untouched(const std::byte* begin, const std::byte* end, Fill fill) {
  for (; begin != end; ++begin)
    if (*begin != fill_byte(begin, fill)) return false;
  return true;
}

void fill_band(std::byte* begin, std::byte* end, Fill fill) {
  for (; begin != end; ++begin) *begin = fill_byte(begin, fill);
}

}  // namespace

void* allocate(std::size_t bytes, int fill) {
  const std::size_t pages = round_up(std::max<std::size_t>(bytes, 1), kPage);
  const std::size_t mapped = pages + 2 * kGuardBytes;
  void* const mapping =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  const std::lock_guard lock(g_mutex);
  const Allocation made{bytes, static_cast<std::byte*>(mapping), mapped, next_fill()};
  mprotect(made.begin(), pages, PROT_READ | PROT_WRITE);
  std::byte* const memory = made.end() - round_up(bytes, kAlignment);
  fill_band(made.begin(), memory, made.fill);
  fill_band(memory + bytes, made.end(), made.fill);
  if (fill != 0) std::memset(memory, fill, bytes);
  poison(made.begin(), static_cast<std::size_t>(memory - made.begin()));
  poison(memory + bytes, static_cast<std::size_t>(made.end() - memory) - bytes);
  g_allocations.emplace(memory, made);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(g_mutex);
  const auto found = g_allocations.find(static_cast<std::byte*>(memory));
  if (found == g_allocations.end())
    throw Error(ErrorKind::kDevice, "emulation: what is released is no allocation");
  unpoison(found->second.mapping, found->second.mapped);
  munmap(found->second.mapping, found->second.mapped);
  g_allocations.erase(found);
}

bool is_device_memory(const void* memory) {
  const auto* const place = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(g_mutex);
  return std::any_of(g_allocations.begin(), g_allocations.end(), [&](const auto& entry) {
    return place >= entry.first &&
           place < entry.first + std::max<std::size_t>(entry.second.bytes, 1);
  });
}

std::size_t size_of_allocation(void* memory) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_allocations.find(static_cast<std::byte*>(memory));
  return found == g_allocations.end() ? 0 : found->second.bytes;
}

void* allocate_pinned(std::size_t bytes) {
  void* const memory = ::operator new(bytes);
  const std::lock_guard lock(g_mutex);
  g_pinned[static_cast<std::byte*>(memory)] = bytes;
  return memory;
}

std::size_t size_of_pinned(void* memory) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_pinned.find(static_cast<std::byte*>(memory));
  return found == g_pinned.end() ? 0 : found->second;
}

void release_pinned(void* memory) {
  const std::lock_guard lock(g_mutex);
  g_pinned.erase(static_cast<std::byte*>(memory));
  ::operator delete(memory);
}

bool is_pinned(const void* memory) {
  const std::lock_guard lock(g_mutex);
  const auto* const place = static_cast<const std::byte*>(memory);
  return std::any_of(g_pinned.begin(), g_pinned.end(), [&](const auto& entry) {
    return place >= entry.first && place < entry.first + entry.second;
  });
}

void check_bands() {
#ifndef HGT_ASAN  // which stops whoever writes there
  const std::lock_guard lock(g_mutex);
  for (const auto& [memory, made] : g_allocations)
    if (!untouched(made.begin(), memory, made.fill) ||
        !untouched(memory + made.bytes, made.end(), made.fill))
      throw Error(ErrorKind::kDevice, "emulation: a kernel wrote outside of its operands");
#endif
}

}  // namespace hgt::emulation
