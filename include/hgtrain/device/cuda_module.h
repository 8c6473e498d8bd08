#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// hgtrain_cuda.so, opened at run time so that a CPU start neither needs nor pays for CUDA.
///
/// Opening tells apart, each as Error(kDevice) with a hint: the module is missing; it is of another
/// build; a CUDA library it needs is missing; and, in `get`, what `require_device` refuses. A
/// module stays open to the end of the process: CUDA's libraries do not support being unloaded.
class CudaModule {
 public:
  struct Search {
    std::vector<std::filesystem::path> module_folders;  ///< the first that has hgtrain_cuda.so
    std::vector<std::filesystem::path>
        library_folders;  ///< for CUDA libraries the system does not find
  };
  /// The module: beside the program, then LD_LIBRARY_PATH. CUDA libraries that ld.so does not find
  /// by itself: CUDA_HOME, CUDA_PATH, /usr/local/cuda*, and the nvidia/*/lib folders of PyPI's
  /// wheels in the .venv beside the build, VIRTUAL_ENV, CONDA_PREFIX, ~/.local and the system's
  /// Python.
  static Search default_search();

  explicit CudaModule(const Search& search);
  /// Tables that are there already, for tests; they outlive it.
  explicit CudaModule(const CudaTables& tables,
                      std::vector<std::filesystem::path> library_folders = {})
      : tables_(&tables), library_folders_(std::move(library_folders)) {}

  /// The process's module, opened by the first call and checked for a usable device. Thread-safe.
  static const CudaModule& get();

  const CudaTables& tables() const { return *tables_; }
  const CudaDeviceTable& device() const { return *tables_->device; }
  const CudaOpsTable& ops() const { return *tables_->ops; }
  const CudaCommTable& comm() const { return *tables_->comm; }
  CudaProbe probe() const;
  /// dlopen's handle of a library of CUDA's, opened as the module's own are, to the end of the
  /// process. Throws Error(kDevice) where it was not found or does not open.
  void* library(const std::string& file) const;

 private:
  const CudaTables* tables_;
  std::vector<std::filesystem::path> library_folders_;
};

/// Throws Error(kDevice) unless the probe found a device: no driver, a driver too old for the
/// toolkit the module was built with, a driver without (visible) devices, or another state of the
/// runtime.
void require_device(const CudaProbe& probe);

/// Throws the failure of a module call as the Error it was.
void check(CudaResult result);

}  // namespace hgt
