#include "process_title.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <sys/prctl.h>

namespace hgt {

ProcessTitle::ProcessTitle() {
  std::ifstream stat("/proc/self/stat");
  stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');  // of the program's name
  std::string skipped;
  for (int field = 3; field < 48; ++field) stat >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(stat >> begin >> end) || begin == 0 || end <= begin) return;
  begin_ = reinterpret_cast<char*>(begin);
  bytes_ = end - begin;
}

void ProcessTitle::set(const char* title) const noexcept {
  prctl(PR_SET_NAME, title);
  if (begin_ == nullptr) return;
  std::memset(begin_, 0, bytes_);
  std::memcpy(begin_, title, std::strlen(title) < bytes_ ? std::strlen(title) : bytes_ - 1);
}

}  // namespace hgt
