#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hgt {

struct OpenedLibrary {
  void* handle = nullptr;
  std::string
      missing;      ///< the library that was not found anywhere: the file itself or one it needs
  std::string why;  ///< dlopen's own words where it failed
};

/// dlopen(file). A library it needs that the system does not find is opened from the first of
/// `folders` that has it, which is enough: the dynamic linker takes one that is already open by its
/// name.
OpenedLibrary open_library(const std::string& file,
                           const std::vector<std::filesystem::path>& folders);

/// The file NAME in the first of the folders that has one; empty where none has.
std::filesystem::path find_in(const std::vector<std::filesystem::path>& folders,
                              const std::string& name);

/// Where CUDA's libraries may lie that the system's search does not know; existing folders only.
std::vector<std::filesystem::path> cuda_library_folders(
    const std::filesystem::path& program_folder);

}  // namespace hgt
