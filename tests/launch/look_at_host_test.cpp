#include "look_at_host.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/machine/network.h"

#include "payload.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a host says what it has") {
  const TemporaryFolder folder;
  Inspect wanted;
  wanted.folder = folder / "no/such/folder";
  VisibleDevices devices;
  devices.machine.gpus.resize(2);
  devices.machine.gpus[0].uuid = "GPU-0";
  devices.machine.gpus[1].uuid = "GPU-1";
  devices.machine.gpus[1].name = "Newer";
  devices.gpus.push_back(devices.machine.gpus[1]);
  devices.machine.driver_version = "580.1";
  const HostFacts facts = look_at_host(wanted, "127.0.0.1", devices);
  CHECK(facts.name != "");
  CHECK(facts.machine.find("net:[") != std::string::npos);
  CHECK(facts.cores > 0);
  CHECK(facts.memory_bytes > 0);
  CHECK(facts.nofile != 0);
  CHECK(facts.disk == folder.path());
  CHECK(facts.disk_free_bytes > 0);
  CHECK_FALSE(facts.disk_is_read_only);
  CHECK(facts.interface == interface_with("127.0.0.1"));
  CHECK_FALSE(facts.lacks_address);
  Inspect elsewhere, here;
  elsewhere.address = "192.0.2.1";
  CHECK(look_at_host(elsewhere, "", {}).lacks_address);
  here.address = "127.0.0.1";
  CHECK_FALSE(look_at_host(here, "", {}).lacks_address);
  CHECK(facts.driver == "580.1");
  CHECK(facts.gpus == std::vector<std::string>{"GPU-1"});
  CHECK(facts.gpu_names == std::vector<std::string>{"Newer"});
  CHECK(facts.all_gpus == std::vector<std::string>{"GPU-0", "GPU-1"});
  CHECK(facts.libraries.empty());
  CHECK(facts.doctor == "");
  CHECK(facts.start_error == "");
  CHECK(facts.wall_ns + now_ns() > 1'700'000'000'000'000'000);
  const auto copy = decode_payload<HostFacts>(encode_payload(facts));
  CHECK((HostFacts::fields(copy) == HostFacts::fields(facts)));
}

TEST_CASE("a host says what would keep ranks from starting") {
  const TemporaryFolder folder;
  const std::string before = std::filesystem::current_path();
  const auto error_of = [](const Inspect& wanted) {
    const HostFacts facts = look_at_host(wanted, "", {});
    CHECK(facts.start_error_kind == (wanted.interface.empty() ? 2 : 3));
    return facts.start_error;
  };
  Inspect no_folder, no_program, no_interface, wanted;
  no_folder.work_folder = folder / "absent";
  CHECK_THAT(error_of(no_folder), Catch::EndsWith(" has no folder " + no_folder.work_folder +
                                                  ": No such file or directory"));
  no_program.command = "absent";
  no_program.path = folder.path();
  CHECK(error_of(no_program) == "there is no program 'absent' in PATH");
  no_interface.interface = "no0";
  CHECK_THAT(error_of(no_interface), Catch::Contains(" has no network interface no0"));
  wanted.work_folder = folder.path();
  wanted.command = "./run";
  CHECK(error_of(wanted) == "there is no program ./run");
  wanted.program = folder / "python";
  std::filesystem::create_symlink("/no/python", wanted.program);
  CHECK(error_of(wanted) == wanted.program + " is a link to /no/python, which is not there");
  wanted.program = "";
  std::filesystem::create_symlink("/bin/true", folder / "run");
  CHECK(look_at_host(wanted, "", {}).start_error == "");
  wanted.script = "train.py";
  CHECK_THAT(error_of(wanted), Catch::EndsWith(" has no file " + (folder / "train.py")));
  std::ofstream(folder / "train.py");
  CHECK(look_at_host(wanted, "", {}).start_error == "");
  for (const char* file : {"one.idx", "two"}) std::ofstream(folder / file);
  wanted.token_files = {"one", folder / "two"};
  CHECK(look_at_host(wanted, "", {}).start_error == "");
  wanted.token_files.insert(wanted.token_files.end(), {"three", "/no/four"});
  CHECK_THAT(error_of(wanted),
             Catch::EndsWith(" has no token file " + (folder / "three") + ", nor /no/four"));
  CHECK_THAT(look_at_host(wanted, "", {}).start_hint,
             Catch::Contains("`--distributed.push_data true`"));
  wanted.token_files.clear();
  wanted.run_dir = "runs/mine";
  wanted.shared_file = "one.idx";
  CHECK(look_at_host(wanted, "", {}).missing_run_dir == "");
  wanted.shared_file = "absent";
  CHECK(look_at_host(wanted, "", {}).missing_run_dir == "runs/mine");
  std::filesystem::current_path(before);
}
