#include "hgtrain/device/buffer.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {

// calloc hands out fresh pages of the system as they are; aligned_alloc and memset touch them all.
void* Buffer::allocate(const std::string& name, std::size_t bytes, Place place, Device device) try {
  if (place == Place::kHost) return std::calloc(1, bytes);
  void* memory = nullptr;
  const CudaDeviceTable& table = CudaModule::get().device();
  if (place == Place::kDevice) {
    check(table.allocate(device.index, bytes, &memory));
  } else {
    check(table.allocate_pinned(bytes, &memory));
    std::memset(memory, 0, bytes);
  }
  return memory;
} catch (Error& error) {
  error.in("allocating " + name);
  throw;
}

void Buffer::Free::operator()(void* memory) const noexcept {
  if (place == Place::kHost)
    std::free(memory);
  else if (place == Place::kPinned)
    (void)CudaModule::get().device().release_pinned(memory);
  else
    (void)CudaModule::get().device().release(device.index, memory);
}

Buffer::Buffer(std::string name, std::int64_t bytes, Device device)
    : Buffer(std::move(name), bytes, device.is_cpu() ? Place::kHost : Place::kDevice, device) {}

Buffer Buffer::reached_by(Device device, std::string name, std::int64_t bytes) {
  return Buffer(std::move(name), bytes, device.is_cpu() ? Place::kHost : Place::kPinned,
                Device::cpu());
}

Buffer::Buffer(std::string name, std::int64_t bytes, Place place, Device device)
    : name_(std::move(name)), bytes_(bytes), device_(device) {
  if (bytes < 0) throw Error(ErrorKind::kInternal, fmt::format("{} has {} bytes", name_, bytes));
  std::size_t space = static_cast<std::size_t>(bytes) + kAlignment;
  memory_ = std::unique_ptr<void, Free>(allocate(name_, space, place, device), Free{place, device});
  data_ = memory_.get();
  if (!data_)
    throw Error(
        ErrorKind::kDevice,
        fmt::format("no memory for {} ({:.1f} GiB)", name_, static_cast<double>(bytes) / (1 << 30)),
        "use a smaller micro-batch, sequence length or model");
  std::align(kAlignment, static_cast<std::size_t>(bytes), data_, space);
}

}  // namespace hgt
