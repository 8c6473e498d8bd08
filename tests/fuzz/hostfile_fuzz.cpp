// Lists of hosts and hostfiles: an Error or hosts that ssh can be given.
#include <string>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/hosts.h"

namespace {

template <class Parse>
void check(const Parse& parse) {
  try {
    for (const hgt::JobHost& host : parse())
      if (host.name.empty() || host.name[0] == '-' || host.workers < 0) __builtin_trap();
  } catch (const hgt::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check([&] { return hgt::parse_hosts(text); });
  check([&] { return hgt::parse_hostfile(text, "hosts"); });
  return 0;
}
