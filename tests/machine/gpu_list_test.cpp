#include "gpu_list.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// The UUIDs that `selection` leaves of four GPUs and one part of a GPU.
std::vector<std::string> selected(const char* selection) {
  GpuList list;
  for (const char* uuid : {"GPU-aa1", "GPU-ab2", "GPU-b3", "GPU-c4"})
    list.gpus.emplace_back().uuid = uuid;
  list.migs.emplace_back().uuid = "MIG-1";
  std::vector<std::string> uuids;
  for (const VisibleGpu& gpu : select_gpus(list, selection)) uuids.push_back(gpu.uuid);
  return uuids;
}

using Uuids = std::vector<std::string>;

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES selects GPUs as in CUDA") {
  CHECK(selected(nullptr).size() == 4);
  CHECK(selected("2,0") == Uuids{"GPU-b3", "GPU-aa1"});
  CHECK(selected(" 1 , 3 ") == Uuids{"GPU-ab2", "GPU-c4"});
  CHECK(selected("GPU-c4,GPU-b") == Uuids{"GPU-c4", "GPU-b3"});
  CHECK(selected("MIG-1") == Uuids{"MIG-1"});
  for (const char* nothing :
       {"", "-1", "NoDevFiles", "4", "GPU-a", "GPU-x", "MIG-2", "99999999999", ",0"}) {
    INFO(nothing);
    CHECK(selected(nothing).empty());
  }
  CHECK(selected("0,-1,1") == Uuids{"GPU-aa1"});
  CHECK(selected("0,0,1") == Uuids{"GPU-aa1"});
}

TEST_CASE("without the driver's library its files are read, or at least counted") {
  const TemporaryFolder root;
  CHECK(gpus_from_files(root.path()).gpus.empty());
  CHECK_FALSE(gpus_from_files(root.path()).problem.empty());
  std::filesystem::create_directories(root / "dev");
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"})
    std::ofstream(root / "dev/" + name);
  CHECK(gpus_from_files(root.path()).gpus.size() == 2);

  const std::string gpu = root / "proc/driver/nvidia/gpus/0000:01:00.0";
  std::filesystem::create_directories(gpu);
  std::ofstream(gpu + "/information") << "Model: \t\t NVIDIA X\nIRQ:   	 9\nGPU UUID: \t GPU-12\n";
  const auto list = gpus_from_files(root.path());
  REQUIRE(list.gpus.size() == 1);
  CHECK(list.gpus[0].name == "NVIDIA X");
  CHECK(list.gpus[0].uuid == "GPU-12");
  CHECK(list.problem.empty());
}
