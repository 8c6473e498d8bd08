#include "hgtrain/device/buffer.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

void Buffer::Free::operator()(void* memory) const noexcept {
  std::free(memory);
}

Buffer::Buffer(std::string name, std::int64_t bytes, Device device)
    : name_(std::move(name)), bytes_(bytes), device_(device) {
  if (!device.is_cpu())
    throw Error(ErrorKind::kDevice,
                fmt::format("cannot allocate {} on {}: this build computes on the CPU only", name_,
                            name_of(device)));
  if (bytes < 0) throw Error(ErrorKind::kInternal, fmt::format("{} has {} bytes", name_, bytes));
  // calloc hands out fresh pages of the system as they are; aligned_alloc and memset touch them
  // all.
  std::size_t space = static_cast<std::size_t>(bytes) + kAlignment;
  memory_.reset(std::calloc(1, space));
  data_ = memory_.get();
  if (!data_)
    throw Error(ErrorKind::kDevice, fmt::format("no memory for {} ({} bytes)", name_, bytes),
                "use a smaller micro-batch, sequence length or model");
  std::align(kAlignment, static_cast<std::size_t>(bytes), data_, space);
}

}  // namespace hgt
