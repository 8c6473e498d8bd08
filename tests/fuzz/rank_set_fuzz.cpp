// Lists of ranks: an Error, or a list that is written and read again as the same one.
#include <string>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/rank_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string text =
        hgt::RankSet::parse({reinterpret_cast<const char*>(data), size}).text();
    if (hgt::RankSet::parse(text).text() != text) __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
