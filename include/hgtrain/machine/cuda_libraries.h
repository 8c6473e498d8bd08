#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace hgt {

/// hgtrain's own modules with CUDA code, which lie next to the programs: one for each generation of
/// CUDA in a package, newest first.
inline constexpr std::array kCudaModuleFiles = {"hgtrain_cuda.so", "hgtrain_cuda12.so"};

/// A CUDA library that training uses, as this process would open it.
struct CudaLibrary {
  std::string name;     ///< "CUDA runtime", "cuBLAS", "cuDNN", "NCCL"
  std::string file;     ///< "" if it was not found
  std::string version;  ///< as text: "13.0", "9.19.0"; "" if the library does not say it
  int number = 0;       ///< the number that the library returns: 13000
};

/// Opens each library in its newest version; of one version, the system's file comes before those
/// in `folders`. Libraries of CUDA itself have its major version `cuda`, or any if that is 0; cuDNN
/// and NCCL are the nearest to them.
std::vector<CudaLibrary> cuda_libraries(std::vector<std::filesystem::path> folders, int cuda = 0);

}  // namespace hgt
