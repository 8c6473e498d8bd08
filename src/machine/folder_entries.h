#pragma once

#include <filesystem>
#include <vector>

namespace hgt {

/// The entries of a folder, sorted; none if it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

}  // namespace hgt
