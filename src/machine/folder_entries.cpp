#include "folder_entries.h"

#include <algorithm>

namespace hgt {

std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace hgt
