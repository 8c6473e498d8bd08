#include "hgtrain/machine/diagnosis.h"

#include <cerrno>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// A machine with two GPUs and all in order.
Machine healthy() {
  Machine m;
  m.files = {{"0000:01:00.0", "0000:02:00.0"},
             "580.65.06",
             {{"/dev/nvidia-uvm", 0}, {"/dev/nvidia0", 0}, {"/dev/nvidia1", 0}}};
  m.driver = {.opened = true, .result = 0, .version = 13000, .devices = 2};
  m.devices.gpus.resize(2);
  for (VisibleGpu& gpu : m.devices.gpus) gpu.name = "X", gpu.compute_capability = 90;
  m.devices.machine = {m.devices.gpus, {}, "", "580.65.06", 0};
  m.module = {.opened = true, .build = "0.1.0, CUDA 13.0, sm_75 sm_90", .runtime_version = 13000};
  m.resources.shm_free_bytes = std::int64_t{1} << 30;
  return m;
}

/// The one problem of a machine in the state; its hint must not be empty.
std::string problem_of(const Machine& m, const std::string& state) {
  const Diagnosis d = diagnose(m);
  CHECK(d.gpus == state);
  REQUIRE(d.problems.size() == 1);
  CHECK_FALSE(d.problems[0].hint.empty());
  return d.problems[0].message;
}

void no_problem(const Machine& m, const std::string& state) {
  const Diagnosis d = diagnose(m);
  CHECK(d.gpus == state);
  CHECK(d.problems.empty());
}

Machine failing(int cuinit) {
  Machine m = healthy();
  m.driver.result = cuinit;
  m.driver.devices = 0;
  return m;
}

}  // namespace

TEST_CASE("a working GPU is no problem, nor is a machine without one") {
  no_problem(healthy(), "usable");
  CHECK(diagnose(healthy()).advice.empty());
  Machine none;
  none.driver.absent = true;
  none.module.problem = "the CUDA module hgtrain_cuda.so was not found";
  no_problem(none, "none");
  none.driver = {.opened = true, .result = 100, .version = 13000};  // a driver on a login node
  no_problem(none, "none");
}

TEST_CASE("GPUs without a driver are a problem, and so is a driver without its library") {
  Machine m = healthy();
  m.driver = {.absent = true};
  CHECK(problem_of(m, "no_driver_library") ==
        "the NVIDIA driver 580.65.06 is installed, but its library libcuda.so.1 is not found");
  m.files.kernel_driver.clear();
  m.devices = {};
  CHECK(problem_of(m, "no_driver") == "this machine has 2 GPUs, but no NVIDIA driver");
  m.driver = {.why = "file too short"};
  CHECK(problem_of(m, "not_started") == "libcuda.so.1 cannot be opened: file too short");
  CHECK(problem_of(failing(34), "no_driver_library").find("only for linking") != std::string::npos);
}

TEST_CASE("a device file that this user may not open is reported as a permission") {
  for (const int result : {100, 304, 999}) {
    Machine m = failing(result);
    m.files.devices[1].open_error = EPERM;
    CHECK(problem_of(m, "no_permission") ==
          "this user may not use the GPUs: /dev/nvidia0 (Operation not permitted)");
  }
  Machine m = failing(100);
  m.devices.machine.nvml_result = 4;
  CHECK(problem_of(m, "no_permission") ==
        "this user may not use the GPUs: NVML says Insufficient Permissions");
}

TEST_CASE("the problem of a driver that does not start names the reason") {
  CHECK(problem_of(failing(100), "no_device") == "the NVIDIA driver 580.65.06 shows no device");
  CHECK(problem_of(failing(802), "not_ready").find("802") != std::string::npos);
  problem_of(failing(803), "driver_mismatch");
  Machine m = failing(999);
  m.devices.machine.nvml_result = 18;
  problem_of(m, "driver_mismatch");
  CHECK(problem_of(failing(999), "not_started") == "CUDA does not start: cuInit gives error 999");
  m = failing(999);
  m.files.devices.erase(m.files.devices.begin());
  CHECK(diagnose(m).problems.at(0).hint.find("modprobe nvidia_uvm") != std::string::npos);
}

TEST_CASE("CUDA_VISIBLE_DEVICES hides GPUs on purpose or by mistake") {
  Machine m = failing(100);
  m.devices.gpus.clear();
  for (const char* nothing : {"", "-1"}) {
    m.selection = nothing;
    no_problem(m, "hidden");
  }
  m.selection = "7";
  CHECK(problem_of(m, "wrong_selection") == "CUDA_VISIBLE_DEVICES=7 names none of the 2 here");
}

TEST_CASE("a driver must support the toolkit's major version") {
  Machine m = healthy();
  m.driver.version = 12040;
  CHECK(problem_of(m, "driver_too_old") ==
        "the NVIDIA driver 580.65.06 is too old: it supports CUDA 12.4, but this build needs CUDA "
        "13.0");
  CHECK_THAT(diagnose(m).problems[0].hint, Catch::Contains("or build with a CUDA 12 toolkit"));
  m.driver.version = 11080;
  m.module = {.problem = "the CUDA module needs libcublasLt.so.13, which was not found"};
  CHECK_THAT(problem_of(m, "driver_too_old"), Catch::Contains("needs CUDA 12.0"));
  CHECK_THAT(diagnose(m).problems[0].hint, !Catch::Contains("build"));
  m.driver.version = 12040;
  m.module = {.problem = "there is none", .hint = "build it"};
  m.libraries = {{"CUDA runtime", "libcudart.so.13", "13.0", 13000}};
  problem_of(m, "driver_too_old");
  m.libraries[0].number = 12080;
  CHECK(problem_of(m, "no_module") == "there is none");
}

TEST_CASE("the module must open, start, and support the GPU") {
  Machine m = healthy();
  m.module.status = 35;
  m.module.status_text = "insufficient driver";
  CHECK(problem_of(m, "not_started") ==
        "CUDA does not start in the worker: insufficient driver (error 35)");
  m = healthy();
  m.devices.gpus[1].compute_capability = 61;
  CHECK(problem_of(m, "gpu_too_old") == "X is sm_61, but this build supports sm_75 and newer");
}

TEST_CASE("a worker that does not start is a problem everywhere") {
  Machine m;
  m.driver.absent = true;
  m.module.worker_problem = "libdnnl.so.3: cannot open shared object file";
  CHECK(problem_of(m, "none").find("libdnnl.so.3") != std::string::npos);
  Machine gpus = healthy();
  gpus.module = {.worker_problem = "exit status 127"};
  problem_of(gpus, "no_module");
}

TEST_CASE("limits that may cause trouble later are advice") {
  Machine m = healthy();
  m.resources.shm_free_bytes = 1 << 20;
  m.resources.cpu_quota = 1.5;
  m.resources.usable_cores = 8;
  m.resources.limits = {{"nofile", 256, 4096}, {"memlock", 65536, 65536}};
  m.devices.gpus[0].pcie_width = 8;
  m.devices.gpus[0].pcie_max_width = 16;
  CHECK(diagnose(m).advice.size() == 4);
  m.network.infiniband = {{"mlx5_0", 1, "ACTIVE", "", ""}};
  const Diagnosis d = diagnose(m);
  CHECK(d.problems.empty());
  CHECK(d.advice.size() == 5);
  for (const Finding& f : d.advice) CHECK_FALSE(f.hint.empty());
}
