// Lists of hosts, hostfiles and filters of them: an Error or hosts that ssh can be given.
#include <string>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/host_choice.h"

namespace {

template <class Parse>
void check(const Parse& parse) {
  try {
    for (const hgt::JobHost& host : parse())
      if (host.name.empty() || host.name[0] == '-' || host.workers < 0 ||
          host.user.starts_with('-') || host.ssh_port < 0 || host.ssh_port > 65535)
        __builtin_trap();
  } catch (const hgt::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check([&] { return hgt::parse_hosts(text); });
  check([&] { return hgt::parse_hostfile(text, "hosts"); });
  check(
      [&] { return hgt::hosts_of({.hosts = "a:4,me@n[01-16]:8,[fd00::1]:2,b", .include = text}); });
  check(
      [&] { return hgt::hosts_of({.hosts = "a:4,me@n[01-16]:8,[fd00::1]:2,b", .exclude = text}); });
  return 0;
}
