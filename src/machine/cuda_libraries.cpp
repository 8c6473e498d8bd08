#include "hgtrain/machine/cuda_libraries.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "hgtrain/machine/cuda_driver.h"
#include "hgtrain/machine/library_search.h"

namespace hgt {
namespace {

// The version functions have one of two types: int f(int*) or size_t f().
int by_argument(void* function) {
  int version = 0;
  return reinterpret_cast<int (*)(int*)>(function)(&version) == 0 ? version : 0;
}
int by_return(void* function) {
  return static_cast<int>(reinterpret_cast<std::size_t (*)()>(function)());
}

/// 130200 is 13.2.0, in cuBLAS, in NCCL since 2.9 and in cuDNN since 9.
std::string three_parts(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}
/// In cuDNN 8, 8907 is 8.9.7.
std::string cudnn_version(int version) {
  if (version >= 90000) return three_parts(version);
  return fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100);
}

struct Known {
  const char* name;
  std::string file;
  std::vector<int> so_versions;  ///< the N of libx.so.N, newest first
  bool follows_cuda;             ///< N is the major version of CUDA
  const char* symbol;
  int (*version)(void* function);
  std::string (*text)(int version);
};

const std::vector<Known>& known_libraries() {
  static const std::vector<Known> known = {
      {"CUDA runtime",
       "libcudart.so",
       {13, 12},
       true,
       "cudaRuntimeGetVersion",
       by_argument,
       cuda_version_text},
      {"cuBLAS", "libcublasLt.so", {13, 12}, true, "cublasLtGetVersion", by_return, three_parts},
      {"cuDNN", "libcudnn.so", {9, 8}, false, "cudnnGetVersion", by_return, cudnn_version},
      {"NCCL", "libnccl.so", {2}, false, "ncclGetVersion", by_argument, three_parts},
  };
  return known;
}

}  // namespace

std::vector<CudaLibrary> cuda_libraries(std::vector<std::filesystem::path> folders, int cuda) {
  std::vector<CudaLibrary> out;
  for (const Known& known : known_libraries()) {
    CudaLibrary library;
    library.name = known.name;
    for (const int version : known.so_versions) {
      if (known.follows_cuda && cuda != 0 && version != cuda) continue;
      void* const handle = open_library(fmt::format("{}.{}", known.file, version), folders).handle;
      void* const function = handle == nullptr ? nullptr : dlsym(handle, known.symbol);
      Dl_info where{};
      if (function == nullptr || dladdr(function, &where) == 0) continue;
      library.file = where.dli_fname;
      if (known.follows_cuda) folders = nearest_first(folders, library.file);
      library.number = known.version(function);
      if (library.number > 0) library.version = known.text(library.number);
      break;
    }
    out.push_back(library);
  }
  return out;
}

}  // namespace hgt
