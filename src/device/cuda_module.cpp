#include "hgtrain/device/cuda_module.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "hgtrain/base/host.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/machine/cuda_driver.h"
#include "hgtrain/machine/cuda_libraries.h"
#include "hgtrain/machine/library_search.h"

#include "cuda_table_version.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpuHint = "--device cpu needs no GPU";
/// The runtime says so without a driver, too.
constexpr int kInsufficientDriver = 35;

const CudaTables* tables_of(void* library, const std::string& file) {
  const auto function = reinterpret_cast<CudaTablesFunction>(dlsym(library, kCudaTablesSymbol));
  if (function == nullptr)
    throw Error(ErrorKind::kDevice, file + " is not hgtrain's CUDA module",
                "put the hgtrain_cuda.so of this build next to the program");
  const CudaTables* tables = function();
  if (tables->version != kCudaTableVersion)
    throw Error(
        ErrorKind::kDevice,
        fmt::format(
            "{} comes from another build: its interface is version {:x}, this program's {:x}", file,
            tables->version, kCudaTableVersion),
        "put the hgtrain_cuda.so of this build next to the program");
  return tables;
}

/// The modules of a package, one for each generation of CUDA, in the order in which they are tried.
/// The libraries of the first stay open, even if the driver does not serve it, and its libnccl.so.2
/// would be the second's, too.
std::array<const char*, 2> module_files(int driver_version) {
  auto files = kCudaModuleFiles;
  if (driver_version / 1000 == 12) std::ranges::reverse(files);
  return files;
}

/// Afterwards, the nearest to the libraries that it needed come first in `folders`.
const CudaTables* open_module(const std::string& file, std::vector<fs::path>& folders) {
  const OpenedLibrary opened = open_library(file, folders);
  if (!opened.missing.empty())
    throw Error(
        ErrorKind::kDevice,
        fmt::format("the CUDA module needs {}, which was not found", opened.missing),
        "install the CUDA toolkit and NCCL it was built with, or PyPI's wheels "
        "('nvidia-cublas<14' nvidia-nccl-cu13; for CUDA 12, nvidia-cublas-cu12 nvidia-nccl-cu12), "
        "or name their folder in LD_LIBRARY_PATH")
        .in(file);
  if (opened.handle == nullptr)
    throw Error(ErrorKind::kDevice, "the CUDA module cannot be opened: " + opened.why, kCpuHint)
        .in(file);
  folders = nearest_first(std::move(folders), opened.from);
  return tables_of(opened.handle, file);
}

}  // namespace

CudaModule::Search CudaModule::default_search() {
  const fs::path program_folder = own_program().parent_path();
  Search search{{program_folder}, cuda_library_folders(program_folder), ask_cuda_driver().version};
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty()) search.module_folders.emplace_back(folder);
  }
  return search;
}

CudaModule::CudaModule(const Search& search) {
  std::optional<Error> problem;
  for (const char* name : module_files(search.driver_version)) {
    const std::string file = find_in(search.module_folders, name).string();
    if (file.empty()) continue;
    try {
      library_folders_ = search.library_folders;
      tables_ = open_module(file, library_folders_);
      const CudaProbe found = probe();
      if (found.status != kInsufficientDriver || found.driver_version == 0) return;
    } catch (const Error& error) {
      // A module that the driver cannot serve is no help: only the older one's libraries would be.
      if (!problem || tables_ != nullptr) problem = error;
    }
  }
  if (problem) throw *problem;
  if (tables_ != nullptr) return;  // `require_device` says that the driver is too old
  Error error(ErrorKind::kDevice,
              "the CUDA module hgtrain_cuda.so was not found; a build for CPUs has none",
              fmt::format("take a package for GPUs, or build where nvcc is installed: "
                          "scripts/build -Dcuda=enabled; {}",
                          kCpuHint));
  for (const fs::path& folder : search.module_folders) error.in(folder.string());
  throw error;
}

const CudaModule& CudaModule::get() {
  static const CudaModule module = [] {
    // The launcher counts GPUs as the driver does, and as nvidia-smi shows them.
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    CudaModule opened(default_search());
    require_device(opened.probe());
    // Set by tools that listen to NVTX, such as nsys.
    if (std::getenv("NVTX_INJECTION64_PATH") != nullptr)
      observe_spans(opened.device().push_range, opened.device().pop_range);
    return opened;
  }();
  return module;
}

void* CudaModule::library(const std::string& file) const {
  const OpenedLibrary opened = open_library(file, library_folders_);
  if (opened.handle == nullptr)
    throw Error(ErrorKind::kDevice,
                opened.missing.empty() ? opened.why : opened.missing + " was not found");
  return opened.handle;
}

CudaProbe CudaModule::probe() const {
  CudaProbe probe{};
  check(device().probe(&probe));
  return probe;
}

void require_device(const CudaProbe& probe) {
  constexpr int kNoDevice = 100, kSystemNotReady = 802;
  if (probe.driver_version == 0)
    throw Error(ErrorKind::kDevice, "this machine has no NVIDIA driver",
                fmt::format("install the driver (nvidia-smi must work); {}", kCpuHint));
  if (probe.status == kInsufficientDriver)
    throw Error(
        ErrorKind::kDevice,
        fmt::format("the NVIDIA driver is too old: it supports CUDA {}, this build needs {}",
                    cuda_version_text(probe.driver_version),
                    cuda_version_text(probe.runtime_version)),
        hint_for_old_driver(probe.driver_version));
  if (probe.status == kNoDevice || (probe.status == 0 && probe.device_count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw Error(
        ErrorKind::kDevice, "the NVIDIA driver shows no device",
        visible != nullptr
            ? fmt::format("CUDA_VISIBLE_DEVICES is \"{}\": unset it, or name a device that "
                          "nvidia-smi -L lists",
                          visible)
            : "nvidia-smi -L must list one; in a container, pass the devices in (--gpus all)");
  }
  if (probe.status == kSystemNotReady)
    throw Error(ErrorKind::kDevice, fmt::format("CUDA is not ready: {}", probe.status_text),
                "on machines with NVSwitch: systemctl start nvidia-fabricmanager");
  if (probe.status != 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("CUDA does not start: {} (error {})", probe.status_text, probe.status),
                kCpuHint);
}

void check(CudaResult result) {
  if (result == nullptr) return;
  Error error(static_cast<ErrorKind>(result->kind), result->message, result->hint);
  std::istringstream lines(result->context);
  for (std::string line; std::getline(lines, line);) error.in(line);
  throw error;
}

PinnedMemory allocate_pinned(const CudaModule& module, std::size_t bytes) {
  void* memory = nullptr;
  check(module.device().allocate_pinned(bytes, &memory));
  return {memory, module.device().release_pinned};
}

}  // namespace hgt
