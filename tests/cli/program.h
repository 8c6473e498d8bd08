#pragma once

#include <cstdio>
#include <string>
#include <sys/wait.h>

#include "support/roots.h"

namespace hgt {

struct Outcome {
  int status = 0;
  std::string output;  ///< standard output and standard error
};

inline Outcome run_in_shell(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    outcome.output += static_cast<char>(c);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

/// Runs the built hgtrain through the shell, with `variables` such as "PATH=/bin".
inline Outcome run_program(const std::string& arguments, const std::string& variables = "") {
  return run_in_shell(variables + " " + build_root() + "/hgtrain " + arguments);
}

}  // namespace hgt
