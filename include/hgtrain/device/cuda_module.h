#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// hgtrain_cuda.so, opened at run time so that a CPU start neither needs nor pays for CUDA.
///
/// A package has a second module, hgtrain_cuda12.so, for drivers that serve no newer CUDA: the
/// newest that opens and that the driver serves is taken.
///
/// Opening throws Error(kDevice), with a hint for each cause: the module is missing; it is of
/// another build; a CUDA library that it needs is missing; and, in `get`, what `require_device`
/// refuses. A module is never closed: CUDA's libraries do not support being unloaded.
class CudaModule {
 public:
  struct Search {
    std::vector<std::filesystem::path> module_folders;  ///< searched for the modules in order
    std::vector<std::filesystem::path>
        library_folders;     ///< for CUDA libraries that ld.so does not find
    int driver_version = 0;  ///< highest CUDA version it serves: 13000 is 13.0; 0: not known
  };
  /// The module is searched for next to the program, then in LD_LIBRARY_PATH; CUDA libraries that
  /// ld.so does not find, in CUDA_HOME, CUDA_PATH, /usr/local/cuda*, and in the nvidia/*/lib
  /// folders of PyPI's wheels in each .venv* next to the build, VIRTUAL_ENV, CONDA_PREFIX, ~/.local
  /// and the system's Python.
  static Search default_search();

  explicit CudaModule(const Search& search);
  /// Uses existing tables, for tests; they must outlive this object.
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
  /// dlopen's handle of a CUDA library, found and opened like the module's own until the end of the
  /// process. Throws Error(kDevice) if it is not found or does not open.
  void* library(const std::string& file) const;

 private:
  const CudaTables* tables_ = nullptr;
  std::vector<std::filesystem::path> library_folders_;
};

/// Throws Error(kDevice) unless the probe found a device. The message says why: no driver, a driver
/// too old for the toolkit that the module was built with, no (visible) device, or another error of
/// the runtime.
void require_device(const CudaProbe& probe);

/// Throws the failure of a module call as an Error again.
void check(CudaResult result);

/// Page-locked host memory of a module, which need not be the process's own. It is not zeroed.
using PinnedMemory = std::unique_ptr<void, CudaResult (*)(void*)>;
PinnedMemory allocate_pinned(const CudaModule& module, std::size_t bytes);

}  // namespace hgt
