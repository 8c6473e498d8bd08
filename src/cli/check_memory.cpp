#include "check_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/report/human.h"

namespace hgt {

void check_memory(const char* flag, std::int64_t bytes) {
  const Resources machine = resources_of();
  std::int64_t free = machine.available_bytes;
  if (machine.memory_limit_bytes != kUnlimited) free = std::min(free, machine.memory_limit_bytes);
  if (free > 0 && bytes > free)
    throw Error(ErrorKind::kDevice,
                fmt::format("{} asks for {} of memory, and {} are free", flag, human_bytes(bytes),
                            human_bytes(free)),
                fmt::format("a smaller {}", flag));
}

}  // namespace hgt
