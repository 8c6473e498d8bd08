#include "hgtrain/base/exception.h"

#include <new>
#include <system_error>

#include <fmt/format.h>

namespace hgt {

Error error_from(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return Error(ErrorKind::kDevice, "the memory is not enough",
                 "fewer --threads take less; free some, or raise the limit (`ulimit -v`)");
  const auto* system = dynamic_cast<const std::system_error*>(&exception);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return Error(ErrorKind::kDevice,
                 fmt::format("the system refused to start a thread: {}", system->what()),
                 "raise the limits on processes, threads and memory (`ulimit -u`, `ulimit -v`, the "
                 "control group's pids.max), or use fewer workers or threads");
  return Error(ErrorKind::kInternal, exception.what());
}

}  // namespace hgt
