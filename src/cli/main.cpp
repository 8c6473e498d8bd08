#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <new>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"

#include "command.h"

namespace {

/// The number of a closed standard stream would go to the next file that is opened.
void fill_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::_Exit(1);
}

bool output_failed() {
  return std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
}

int fail(const hgt::Error& error) {
  std::fputs(error.render().c_str(), stderr);
  return error.exit_code();
}

int run(int argc, char** argv) {
  const hgt::Error no_output(hgt::ErrorKind::kData, "standard output cannot be written",
                             "is its disk full?");
  try {
    const int status =
        hgt::run_command_line(std::vector<std::string>(argv + 1, argv + argc), hgt::all_commands());
    return status == 0 && output_failed() ? fail(no_output) : status;
  } catch (const hgt::Error& e) {
    return fail(e);
  } catch (const std::bad_alloc&) {
    return fail(hgt::Error(hgt::ErrorKind::kDevice, "the memory is not enough",
                           "fewer --threads take less; free some, or raise the limit (ulimit -v)"));
  } catch (const std::exception& e) {
    return fail(output_failed() ? no_output : hgt::Error(hgt::ErrorKind::kInternal, e.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  return run(argc, argv);
}
