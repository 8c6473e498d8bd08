// This program counts every allocation of the process except oneDNN's own: glibc lets a program put
// its own malloc in the place of glibc's.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <execinfo.h>
#include <limits>
#include <link.h>

#include <catch2/catch.hpp>

#include "gpt2_run.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> ours{0}, of_onednn{0};
std::uintptr_t onednn_begin = 0, onednn_end = 0;

/// Where oneDNN's code lies: its products pack their operands into memory that they allocate, which
/// dnnl_sgemm gives no way around.
void find_onednn() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        if (!std::strstr(info->dlpi_name, "libdnnl")) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
          onednn_begin = info->dlpi_addr + part.p_vaddr;
          onednn_end = onednn_begin + part.p_memsz;
        }
        return 0;
      },
      nullptr);
}

void count() {
  thread_local bool inside = false;
  if (inside || !counting.load(std::memory_order_relaxed)) return;
  inside = true;
  void* frames[12];
  const int depth = backtrace(frames, 12);
  bool is_onednns = false;
  for (int i = 0; i < depth; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(frames[i]);
    is_onednns |= onednn_begin <= at && at < onednn_end;
  }
  ++(is_onednns ? of_onednn : ours);
  inside = false;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  count();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count();
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}

using namespace hgt;

namespace {

constexpr long kSteps = 4;

/// Our allocations of some steps, the first ones left out. A thread that takes over another's part
/// makes that part's bf16 kernels when it does so first: the least of a few times counts.
long allocations_of(Config config, int threads) {
  config.hardware.threads = threads;
  Gpt2Run run(config);
  long least = std::numeric_limits<long>::max();
  for (int i = 0; i < 2; ++i) run.step();
  for (int times = 0; times < 10 && least > kSteps; ++times) {
    ours = of_onednn = 0;
    counting = true;
    for (int i = 0; i < kSteps; ++i) run.step();
    counting = false;
    least = std::min<long>(least, ours);
  }
  return least;
}

}  // namespace

TEST_CASE("a steady step allocates nothing but the chunks' sums of the gradient norm") {
  find_onednn();
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs
  for (const PrecisionConfig& precision :
       {PrecisionConfig{}, {.bf16 = true}, PrecisionConfig{.fp16 = true}})
    for (const int threads : {1, 2}) {
      const long count = allocations_of(gpt2_config(precision), threads);
      INFO(name_of(precision.compute_dtype())
           << ", threads " << threads << "; oneDNN's: " << of_onednn / kSteps << " a step");
      CHECK(count <= kSteps);
    }
}
