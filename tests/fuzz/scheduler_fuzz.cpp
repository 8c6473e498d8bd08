// Variables of schedulers, one a line: an Error, or a task that is one of its tasks.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "hgtrain/base/error.h"

#include "scheduler.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::map<std::string, std::string> environment;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  try {
    const auto task = hgt::scheduler_task(environment);
    if (task &&
        (task->task < 0 || task->task >= task->num_tasks || task->port < 0 || task->port > 65535))
      __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
