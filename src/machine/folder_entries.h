#pragma once

#include <filesystem>
#include <vector>

namespace hgt {

/// What lies in a folder, sorted; nothing where it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

}  // namespace hgt
