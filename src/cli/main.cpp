#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/launch/remote_command.h"

#include "command.h"
#include "stderr_buffer.h"

namespace {

/// Opens /dev/null for closed standard streams; otherwise the next file that is opened would get
/// their number.
void fill_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::_Exit(1);
}

bool output_failed() {
  return std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
}

int fail(const hgt::Error& error) {
  std::cerr << error.render() << std::flush;
  return error.exit_code();
}

int run(int argc, char** argv) {
  const hgt::Error no_output(hgt::ErrorKind::kData, "standard output cannot be written",
                             "is its disk full?");
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (hgt::is_remote(words)) words = hgt::receive_command().words;
    const int status = hgt::run_command_line(words, hgt::all_commands());
    return status == 0 && output_failed() ? fail(no_output) : status;
  } catch (const std::exception& e) {
    const hgt::Error error = hgt::error_from(e);
    return fail(error.kind() == hgt::ErrorKind::kInternal && output_failed() ? no_output : error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  hgt::report_uncaught_bad_alloc();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  std::cerr.rdbuf(
      new hgt::StderrBuffer(STDERR_FILENO));  // never deleted, because it is flushed after main
  return run(argc, argv);
}
