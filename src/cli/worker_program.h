#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The path of hgtrain-worker, which lies in this program's folder; Error(kConfig) if it does not.
std::string worker_program();

/// Replaces this process with the program argv[0] (execvp): standard input and output, signals and
/// exit status are then that program's. Error(kConfig) if it cannot be started.
[[noreturn]] void become_program(std::vector<std::string> argv);

/// Runs a job of hgtrain's own workers, and prints the text of their "result" event. Returns the
/// exit status.
int print_result_of_job(const std::vector<std::string>& argv, int workers);

}  // namespace hgt
