#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hgt {

/// A CUDA library that training uses, as this process would open it.
struct CudaLibrary {
  std::string name;     ///< "CUDA runtime", "cuBLAS", "cuDNN", "NCCL"
  std::string file;     ///< "" if it was not found
  std::string version;  ///< as text: "13.0", "9.19.0"
  int number = 0;       ///< the number that the library returns: 13000
};

/// Opens each library: the newest that the system finds or, if there is none, in `folders`. Those
/// of CUDA itself are of its major version `cuda`, or of any if that is 0; cuDNN and NCCL are the
/// nearest to them.
std::vector<CudaLibrary> cuda_libraries(std::vector<std::filesystem::path> folders, int cuda = 0);

}  // namespace hgt
