#include "hgtrain/device/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {
namespace {

/// The bytes that devices hold, by buffer name, for the message if no more is free.
class Held {
 public:
  void add(const void* memory, const std::string& name, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    buffers_[memory] = {bytes, name};
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(memory);
  }
  std::int64_t bytes() {
    const std::lock_guard lock(mutex_);
    std::int64_t sum = 0;
    for (const auto& [memory, buffer] : buffers_) sum += static_cast<std::int64_t>(buffer.first);
    return sum;
  }
  /// The largest ones as text.
  std::string text() {
    constexpr std::size_t kMaxNamed = 6;
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::size_t, std::string>> sizes;
    for (const auto& [memory, buffer] : buffers_) sizes.push_back(buffer);
    std::sort(sizes.rbegin(), sizes.rend());
    std::vector<std::string> words;
    for (const auto& [bytes, name] : sizes)
      if (words.size() < kMaxNamed)
        words.push_back(fmt::format("{} {:.1f} MiB", name, static_cast<double>(bytes) / 1048576));
    if (words.empty()) return "no buffers so far";
    return fmt::format("buffers so far: {}{}", fmt::join(words, ", "),
                       sizes.size() > kMaxNamed ? ", ..." : "");
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::pair<std::size_t, std::string>> buffers_;
};
Held& held() {
  static Held* const all = new Held;  // buffers may outlive main
  return *all;
}

/// "the limit of `ulimit -v` is 293 MiB; " if there is one.
std::string limit_of_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("the limit of `ulimit -v` is {} MiB; ", limit.rlim_cur >> 20);
}

/// Asks for huge pages within `memory`, which may be null: addresses in them are found faster.
void* with_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::size_t kPage = 2 << 20;  // on most machines
  void* begin = memory;
  if (memory && std::align(kPage, kPage, begin, bytes))
    (void)madvise(begin, bytes / kPage * kPage, MADV_HUGEPAGE);  // a kernel may have none
  return memory;
}

}  // namespace

std::int64_t Buffer::held_on_gpus() {
  return held().bytes();
}

// calloc hands out fresh pages of the system untouched; aligned_alloc and memset touch them all.
void* Buffer::allocate(const std::string& name, std::size_t bytes, Place place, Device device) try {
  if (place == Place::kHost) return with_huge_pages(std::calloc(1, bytes), bytes);
  void* memory = nullptr;
  const CudaDeviceTable& table = CudaModule::get().device();
  if (place == Place::kDevice) {
    check(table.allocate(device.index, bytes, &memory));
    held().add(memory, name, bytes);
  } else {
    check(table.allocate_pinned(bytes, &memory));
    std::memset(memory, 0, bytes);
  }
  return memory;
} catch (Error& error) {
  error.in("allocating " + name);
  if (place == Place::kDevice) error.in(held().text());
  throw;
}

void Buffer::Free::operator()(void* memory) const noexcept {
  if (place == Place::kHost) std::free(memory);
  if (place == Place::kPinned) (void)CudaModule::get().device().release_pinned(memory);
  if (place != Place::kDevice) return;
  held().remove(memory);
  (void)CudaModule::get().device().release(device.index, memory);
}

Buffer::Buffer(std::string name, std::int64_t bytes, Device device)
    : Buffer(std::move(name), bytes, device.is_cpu() ? Place::kHost : Place::kDevice, device) {}

Buffer Buffer::pinned_for(Device device, std::string name, std::int64_t bytes) {
  return Buffer(std::move(name), bytes, device.is_cpu() ? Place::kHost : Place::kPinned,
                Device::cpu());
}

Buffer::Buffer(std::string name, std::int64_t bytes, Place place, Device device)
    : name_(std::move(name)), bytes_(bytes), device_(device) {
  if (bytes < 0)
    throw Error(ErrorKind::kInternal, fmt::format("{} was asked for with {} bytes", name_, bytes));
  std::size_t space = static_cast<std::size_t>(bytes) + kAlignment;
  memory_ = std::unique_ptr<void, Free>(allocate(name_, space, place, device), Free{place, device});
  data_ = memory_.get();
  if (!data_)
    throw Error(ErrorKind::kDevice,
                fmt::format("out of memory: could not get {:.1f} MiB for {}",
                            static_cast<double>(bytes) / 1048576, name_),
                limit_of_memory() +
                    "free some memory, or use a smaller micro-batch, sequence length or model");
  std::align(kAlignment, static_cast<std::size_t>(bytes), data_, space);
}

}  // namespace hgt
