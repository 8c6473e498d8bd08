#pragma once

#include <exception>
#include <string>

#include "hgtrain/base/error.h"

namespace hgt {

/// The Error to report for an unexpected exception. An Error stays as it is. If the file system
/// refused to examine a file, the kind is kData. If the system refused memory, a thread, a
/// descriptor or another call, it is kDevice, and the hint names the limit to check. Anything else
/// is a bug (kInternal).
Error error_from(const std::exception& exception);

/// The error in one line, with the file or rank that it is about.
std::string message_in_context(const Error& error);

/// From this call on, a std::bad_alloc that nothing catches ends the process with one line on
/// stderr and kDevice's exit code instead of SIGABRT, even if it is uncaught only because there was
/// no memory for its message.
void report_uncaught_bad_alloc();

}  // namespace hgt
