#include "hgtrain/device/buffer.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_module.h"

namespace hgt {

namespace {

// calloc hands out fresh pages of the system as they are; aligned_alloc and memset touch them all.
void* allocate_host(std::size_t bytes) {
  return std::calloc(1, bytes);
}

void* allocate_cuda(const std::string& name, std::size_t bytes, Device device) try {
  void* memory = nullptr;
  check(CudaModule::get().device().allocate(device.index, bytes, &memory));
  return memory;
} catch (Error& error) {
  error.in("allocating " + name);
  throw;
}

}  // namespace

void Buffer::Free::operator()(void* memory) const noexcept {
  if (device.is_cpu())
    std::free(memory);
  else
    (void)CudaModule::get().device().release(device.index, memory);
}

Buffer::Buffer(std::string name, std::int64_t bytes, Device device)
    : name_(std::move(name)), bytes_(bytes), device_(device) {
  if (bytes < 0) throw Error(ErrorKind::kInternal, fmt::format("{} has {} bytes", name_, bytes));
  std::size_t space = static_cast<std::size_t>(bytes) + kAlignment;
  memory_ = std::unique_ptr<void, Free>(
      device.is_cpu() ? allocate_host(space) : allocate_cuda(name_, space, device), Free{device});
  data_ = memory_.get();
  if (!data_)
    throw Error(
        ErrorKind::kDevice,
        fmt::format("no memory for {} ({:.1f} GiB)", name_, static_cast<double>(bytes) / (1 << 30)),
        "use a smaller micro-batch, sequence length or model");
  std::align(kAlignment, static_cast<std::size_t>(bytes), data_, space);
}

}  // namespace hgt
