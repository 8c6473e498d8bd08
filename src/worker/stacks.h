#pragma once

#include <string>

namespace hgt {

/// The stack of each thread of this process, a line per function, the innermost one last; the main
/// thread comes last. For a process that is about to end because it hangs: a signal interrupts the
/// threads, and a thread inside a oneDNN kernel may not survive that. A thread that does not answer
/// within 200 ms, such as one that a debugger holds, is named. Only one thread at a time may call
/// it.
std::string stacks_of_threads();

/// From now on, if a thread of this process crashes (SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT),
/// its stack is written to stderr, the innermost function first, before the process ends as it
/// would have. Signals that already have a handler keep it, such as a sanitizer's.
/// Of a stack that has overflowed, only that of the thread that called this function is written.
void show_stack_of_crash();

}  // namespace hgt
