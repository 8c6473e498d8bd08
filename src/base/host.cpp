#include "hgtrain/base/host.h"

#include <unistd.h>

namespace hgt {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace hgt
