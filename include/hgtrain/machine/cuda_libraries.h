#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hgt {

/// A library of CUDA's that training uses, as this process would open it.
struct CudaLibrary {
  std::string name;     ///< "CUDA runtime", "cuBLAS", "cuDNN", "NCCL"
  std::string file;     ///< "" where it was not found
  std::string version;  ///< its own words: "13.0", "9.19.0"
  int number = 0;       ///< as it gives it: 13000
};

/// Opens each: the newest the system finds by itself, else in `folders`.
std::vector<CudaLibrary> cuda_libraries(const std::vector<std::filesystem::path>& folders);

}  // namespace hgt
