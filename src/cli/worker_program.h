#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The path of hgtrain-worker, which lies beside this program; Error(kConfig) where it does not.
std::string worker_program();

/// Goes on as the program argv[0]: standard input and output, signals and exit status are its.
/// Error(kConfig) where it cannot be started.
[[noreturn]] void become_worker(std::vector<std::string> argv);

}  // namespace hgt
