#pragma once

#include <string>
#include <vector>

#include "hgtrain/machine/cuda_driver.h"
#include "hgtrain/machine/cuda_libraries.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/machine/nvidia_files.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// What the worker reports about its CUDA module (hgtrain_cuda.so or hgtrain_cuda12.so).
struct CudaModuleState {
  bool opened = false;
  std::string build{};            ///< "0.1.0, CUDA 13.0, sm_75 sm_80"
  int runtime_version = 0;        ///< version of its toolkit: 13000 is 13.0
  int status = 0;                 ///< cudaError_t of its first call
  std::string status_text{};      ///< of a status that is not 0
  std::string problem{}, hint{};  ///< why it was not opened
  std::string worker_problem{};   ///< why the worker itself did not start; "" = it did
};

/// Everything that `hgtrain doctor` examines.
struct Machine {
  NvidiaFiles files;
  CudaDriver driver;
  VisibleDevices devices;
  std::vector<CudaLibrary> libraries;
  CudaModuleState module;
  Resources resources;
  Network network;
  const char* selection = nullptr;  ///< CUDA_VISIBLE_DEVICES
};

/// CUDA's libraries are those of the module's CUDA version.
Machine look_at_machine(const std::vector<std::filesystem::path>& library_folders,
                        CudaModuleState module);

struct Finding {
  std::string message, hint;
};

/// The state of the GPUs is one of
///   "usable"
///   "none"              no GPU in this machine: training runs on the CPU
///   "hidden"            CUDA_VISIBLE_DEVICES hides them all, on purpose ("" or -1)
///   "wrong_selection"   CUDA_VISIBLE_DEVICES names none of them
///   "no_driver", "no_driver_library" (the kernel module is there), "driver_mismatch" (library and
///   kernel module differ), "driver_too_old" (for the toolkit), "no_permission", "no_device" (the
///   driver shows none), "not_ready" (NVSwitch), "not_started" (any other error of CUDA)
///   "no_module"         this build's CUDA module is missing or cannot be opened
///   "gpu_too_old"       for the module
/// In all states but the first three, there is a GPU that cannot be used.
struct Diagnosis {
  std::string gpus;
  std::vector<Finding> problems;  ///< why training, or a GPU that is there, cannot run
  std::vector<Finding> advice;    ///< what may slow it down or stop it later
};

/// Plain data in and out: it does not access the machine.
Diagnosis diagnose(const Machine& machine);

}  // namespace hgt
