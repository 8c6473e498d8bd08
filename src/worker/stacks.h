#pragma once

#include <string>

namespace hgt {

/// The stack of each thread of this process, a line per function, the innermost one last; the main
/// thread comes last. For a process that is about to end because it hangs: threads are interrupted
/// by a signal, which one that computes may not survive. A thread that does not answer within
/// 200 ms, such as one that a debugger holds, is named. Any thread but one at a time may call it.
std::string stacks_of_threads();

}  // namespace hgt
