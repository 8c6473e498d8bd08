#pragma once

#include <cstddef>

// What the emulation tells AddressSanitizer: which bytes nobody may touch, and that the stack
// changes. Nothing without it.

#ifdef __SANITIZE_ADDRESS__
#define HGT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HGT_ASAN 1
#endif
#endif

#ifdef HGT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace hgt::emulation {

#ifdef HGT_ASAN
inline void poison(const void* memory, std::size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(const void* memory, std::size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
inline void start_switch(void** fake_stack, const void* stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
inline void finish_switch(void* fake_stack, const void** old_stack, std::size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
}
#else
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
inline void start_switch(void**, const void*, std::size_t) {}
inline void finish_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace hgt::emulation
