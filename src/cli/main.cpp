#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"

#include "command.h"

int main(int argc, char** argv) {
  try {
    return hgt::run_command_line(std::vector<std::string>(argv + 1, argv + argc),
                                 hgt::all_commands());
  } catch (const hgt::Error& e) {
    std::fputs(e.render().c_str(), stderr);
    return e.exit_code();
  } catch (const std::exception& e) {
    const hgt::Error error(hgt::ErrorKind::kInternal, e.what());
    std::fputs(error.render().c_str(), stderr);
    return error.exit_code();
  }
}
