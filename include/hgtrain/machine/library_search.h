#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hgt {

struct OpenedLibrary {
  void* handle = nullptr;
  std::string
      missing;      ///< the library that was not found anywhere: the file itself or one it needs
  std::string why;  ///< dlopen's message, if it failed
  std::filesystem::path from;  ///< the first file that was opened from one of the folders
};

/// dlopen(file). If it needs a library that the system does not find, that library is opened from
/// the first of `folders` that has it, and all others from the nearest to that one. This suffices
/// because the dynamic linker reuses an open library of the same name.
OpenedLibrary open_library(const std::string& file, std::vector<std::filesystem::path> folders);

/// The folders in another order: first that of `file`, then those beside it, in which PyPI's wheels
/// have what belongs together (nvidia/cublas/lib, nvidia/nccl/lib).
std::vector<std::filesystem::path> nearest_first(std::vector<std::filesystem::path> folders,
                                                 const std::filesystem::path& file);

/// The path of the file NAME in the first folder that has it; empty if none has.
std::filesystem::path find_in(const std::vector<std::filesystem::path>& folders,
                              const std::string& name);

/// Existing folders outside the system's search path that may have CUDA's libraries.
std::vector<std::filesystem::path> cuda_library_folders(
    const std::filesystem::path& program_folder);

}  // namespace hgt
