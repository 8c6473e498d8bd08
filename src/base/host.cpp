#include "hgtrain/base/host.h"

#include <fstream>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace hgt {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string boot_id() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, id);
  return id;
}

std::filesystem::path own_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

bool cpu_has_amx() {
#ifdef __x86_64__
  constexpr unsigned kAmxBf16 = 1u << 22;  // of EDX: Intel's manual, volume 2, CPUID leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxBf16) != 0;
#else
  return false;
#endif
}

}  // namespace hgt
