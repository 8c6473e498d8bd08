#pragma once

#include <string>
#include <vector>

namespace hgt {

struct DeviceFile {
  std::string path;  ///< "/dev/nvidia0"
  int open_error;    ///< errno of opening it to read and write; 0 if this user may
};

/// What the kernel shows about NVIDIA's GPUs and driver, without their libraries.
struct NvidiaFiles {
  std::vector<std::string>
      pci_gpus;                     ///< bus ids of the GPUs in the machine, with or without driver
  std::string kernel_driver;        ///< version of the kernel module that is loaded, "" = none
  std::vector<DeviceFile> devices;  ///< /dev/nvidiaN, nvidiactl, nvidia-uvm

  /// "/dev/nvidia0 (Permission denied)" of the first file this user may not open; "" = none.
  std::string refused() const;
};

/// Looks below `root` ("" is the machine).
NvidiaFiles look_for_nvidia(const std::string& root = "");

}  // namespace hgt
