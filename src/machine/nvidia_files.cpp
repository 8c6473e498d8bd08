#include "hgtrain/machine/nvidia_files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "folder_entries.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

/// NVIDIA's vendor number; class 03 is a display controller, with (00) or without (02) a screen.
bool is_gpu(const fs::path& pci_device) {
  return first_word(pci_device / "vendor") == "0x10de" &&
         first_word(pci_device / "class").starts_with("0x03");
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul ...": the word that begins
/// with a digit.
std::string kernel_driver_version(const fs::path& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "";
}

/// nvidia0, nvidia1, ..., nvidiactl and nvidia-uvm; computing needs no others.
bool computes(const std::string& name) {
  if (name == "nvidiactl" || name == "nvidia-uvm") return true;
  return name.size() > 6 && name.starts_with("nvidia") &&
         name.find_first_not_of("0123456789", 6) == std::string::npos;
}

int error_of_opening(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

}  // namespace

std::string NvidiaFiles::refused() const {
  for (const DeviceFile& file : devices)
    if (file.open_error == EACCES || file.open_error == EPERM)
      return fmt::format("{} ({})", file.path, std::strerror(file.open_error));
  return "";
}

NvidiaFiles look_for_nvidia(const std::string& root) {
  NvidiaFiles out;
  for (const fs::path& device : folder_entries(root + "/sys/bus/pci/devices"))
    if (is_gpu(device)) out.pci_gpus.push_back(device.filename());
  out.kernel_driver = kernel_driver_version(root + "/proc/driver/nvidia/version");
  for (const fs::path& file : folder_entries(root + "/dev"))
    if (computes(file.filename()))
      out.devices.push_back({"/dev/" + file.filename().string(), error_of_opening(file)});
  return out;
}

}  // namespace hgt
