#include "hgtrain/base/exception.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hgt {
namespace {

Error out_of_memory() {
  return Error(ErrorKind::kDevice, "out of memory: the system gave this process no more",
               "use fewer --threads, free some memory, or raise the limit (`ulimit -v`)");
}

/// Asio has a category of its own for errno, whose codes equal no std::errc.
std::error_code errno_of(const std::error_code& code) {
  return code.category().name() == std::string_view("asio.system")
             ? std::error_code(code.value(), std::generic_category())
             : code;
}

bool is_lack_of_descriptors(const std::error_code& code) {
  return code == std::errc::too_many_files_open || code == std::errc::too_many_files_open_in_system;
}

bool is_lack_of_resources(const std::error_code& code) {
  return is_lack_of_descriptors(code) || code == std::errc::not_enough_memory;
}

Error refused(const std::system_error& error) {
  const std::error_code code = errno_of(error.code());
  if (code == std::errc::not_enough_memory) return out_of_memory();
  if (code == std::errc::resource_unavailable_try_again)
    return Error(ErrorKind::kDevice,
                 fmt::format("the system refused a thread, a process or memory: {}", error.what()),
                 "raise the limits on processes, threads and memory (`ulimit -u`, `ulimit -v`, the "
                 "control group's pids.max), or use fewer workers or threads");
  if (is_lack_of_descriptors(code))
    return Error(ErrorKind::kDevice,
                 fmt::format("the system refused another file descriptor: {}", error.what()),
                 "raise the limit with `ulimit -n`");
  return Error(ErrorKind::kDevice, fmt::format("the system refused a call: {}", error.what()));
}

/// Rendered early, while there is memory for it.
const std::string& out_of_memory_text() {
  static const std::string text = out_of_memory().render();
  return text;
}

std::terminate_handler default_terminate = nullptr;

[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    const std::string& text = out_of_memory_text();
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    std::_Exit(static_cast<int>(ErrorKind::kDevice));
  } catch (...) {
    // A bug: the default handler says which exception it was, and the core file shows where.
  }
  default_terminate();
  std::abort();
}

}  // namespace

Error error_from(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return out_of_memory();
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&exception);
      file != nullptr && !is_lack_of_resources(file->code()))
    return Error(ErrorKind::kData, fmt::format("cannot access {}: {}", file->path1().string(),
                                               file->code().message()));
  if (const auto* system = dynamic_cast<const std::system_error*>(&exception))
    return refused(*system);
  return Error(ErrorKind::kInternal, exception.what());
}

std::string message_in_context(const Error& error) {
  return error.context().empty()
             ? error.message()
             : fmt::format("{} ({})", error.message(), fmt::join(error.context(), ", "));
}

void report_uncaught_bad_alloc() {
  out_of_memory_text();
  default_terminate = std::set_terminate(on_terminate);
}

}  // namespace hgt
