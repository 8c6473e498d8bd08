// DeepSpeed's files of variables: an Error, or names and values that an environment can have.
#include "hgtrain/base/error.h"

#include "environment_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    for (const auto& [name, value] : hgt::parse_environment_file(text, "file"))
      if (name.empty() || (name + value).find_first_of(std::string("\n\0", 2)) != name.npos ||
          name.find('=') != name.npos)
        __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
