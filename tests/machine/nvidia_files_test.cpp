#include "hgtrain/machine/nvidia_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/put_file.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// Root may open everything: for its lifetime this process is nobody instead.
struct AsNobody {
  AsNobody() : was_root(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~AsNobody() {
    if (was_root && ::seteuid(0) != 0) std::abort();
  }
  const bool was_root;
};

}  // namespace

TEST_CASE("GPUs are seen on the PCI bus without a driver") {
  const TemporaryFolder root;
  const auto device = [&](const std::string& id, const char* vendor, const char* kind) {
    put_file(root / ("sys/bus/pci/devices/" + id + "/vendor"), vendor);
    put_file(root / ("sys/bus/pci/devices/" + id + "/class"), kind);
  };
  device("0000:01:00.0", "0x10de", "0x030200");  // without a screen
  device("0000:02:00.0", "0x10de", "0x030000");
  device("0000:02:00.1", "0x10de", "0x040300");  // its sound
  device("0000:03:00.0", "0x1002", "0x030000");  // another maker's
  const NvidiaFiles found = look_for_nvidia(root.path());
  CHECK(found.pci_gpus == std::vector<std::string>{"0000:01:00.0", "0000:02:00.0"});
  CHECK(found.kernel_driver.empty());
  CHECK(found.refused().empty());
}

TEST_CASE("the version of the kernel module is read") {
  const TemporaryFolder root;
  put_file(root / "proc/driver/nvidia/version",
           "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build");
  CHECK(look_for_nvidia(root.path()).kernel_driver == "580.65.06");
}

TEST_CASE("device files this user may not open are named") {
  const TemporaryFolder root;
  std::filesystem::permissions(root.path(), std::filesystem::perms(0755));
  for (const char* name : {"nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"})
    put_file(root / ("dev/" + std::string(name)), "");
  for (const char* name : {"nvidia0", "nvidiactl", "nvidia-uvm"})
    std::filesystem::permissions(root / ("dev/" + std::string(name)), std::filesystem::perms(0666));
  const auto look = [&] {
    const AsNobody nobody;
    return look_for_nvidia(root.path());
  };
  CHECK(look().devices.size() == 3);
  CHECK(look().refused().empty());
  std::filesystem::permissions(root / "dev/nvidia0", std::filesystem::perms(0));
  const NvidiaFiles found = look();
  CHECK(found.refused() == "/dev/nvidia0 (Permission denied)");
  const auto closed = std::find_if(found.devices.begin(), found.devices.end(),
                                   [](const auto& file) { return file.path == "/dev/nvidia0"; });
  REQUIRE(closed != found.devices.end());
  CHECK(closed->open_error == EACCES);
}
