#pragma once

#include <cstddef>

/// The memory of the emulated device. Around each allocation lies a band that nobody may touch: NaN
/// to whoever reads it, checked after each kernel, poisoned for AddressSanitizer, then pages that
/// are not there.
namespace hgt::emulation {

constexpr int kUninitialised = 0xff;  ///< a byte of memory nobody wrote: NaN, -1

/// Aligned to 256 bytes; every byte is `fill`. Pages of zeros take no memory until they are
/// touched. Throws std::bad_alloc.
void* allocate(std::size_t bytes, int fill = kUninitialised);
void release(void* memory);

/// Whether it points into an allocation.
bool is_device_memory(const void* memory);
/// Bytes of the allocation.
std::size_t size_of_allocation(void* memory);

/// Memory of the host that is page-locked.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory);
bool is_pinned(const void* memory);
/// Its bytes.
std::size_t size_of_pinned(void* memory);

/// Throws Error(kDevice) if something wrote outside of an allocation.
void check_bands();

}  // namespace hgt::emulation
