#include "hgtrain/device/cuda_module.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "support/roots.h"
#include "support/temporary_folder.h"

namespace hgt {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

/// A folder in which the module FILE is the library NAME that the build made for these tests.
CudaModule::Search with_module(const TemporaryFolder& folder, const std::string& name,
                               const std::string& file = "hgtrain_cuda.so") {
  fs::create_symlink(fs::path(build_root()) / "tests/device" / name, folder / file);
  return {{folder.path()}, {}};
}

template <class Call>
Error refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kDevice);
    CHECK_FALSE(error.hint().empty());
    return error;
  }
  throw std::logic_error("nothing was refused");
}

Error refusal(const CudaModule::Search& search) {
  return refusal_of([&] { CudaModule module(search); });
}

Error refusal(const CudaProbe& probe) {
  return refusal_of([&] { require_device(probe); });
}

TEST_CASE("a module of this build opens") {
  TemporaryFolder folder;
  CHECK(std::string(CudaModule(with_module(folder, "fake_cuda_module.so")).tables().build)
            .starts_with("fake"));
}

TEST_CASE("a missing module is named, with the folders searched") {
  TemporaryFolder folder;
  const Error error = refusal(CudaModule::Search{{folder.path()}, {}});
  CHECK_THAT(error.message(), Contains("hgtrain_cuda.so was not found"));
  CHECK_THAT(error.context().at(0), Contains(folder.path()));
  CHECK_THAT(error.hint(), Contains("--device cpu"));
}

TEST_CASE("the module is searched for next to the program, then in LD_LIBRARY_PATH") {
  setenv("LD_LIBRARY_PATH", "/first::/second", 1);
  const std::vector<fs::path> folders = CudaModule::default_search().module_folders;
  unsetenv("LD_LIBRARY_PATH");
  CHECK(folders ==
        std::vector<fs::path>{fs::path(build_root()) / "tests/device", "/first", "/second"});
}

TEST_CASE("a module of another build is refused by its version") {
  TemporaryFolder folder;
  CHECK_THAT(refusal(with_module(folder, "other_cuda_module.so")).message(),
             Contains("another build") && Contains("4711"));
}

TEST_CASE("a library that is not a module, and a file that is not a library, are refused") {
  TemporaryFolder folder;
  CHECK_THAT(refusal(with_module(folder, "no_cuda_module.so")).message(),
             Contains("not hgtrain's CUDA module"));
  TemporaryFolder text;
  std::ofstream(text / "hgtrain_cuda.so") << "text";
  CHECK_THAT(refusal(CudaModule::Search{{text.path()}, {}}).message(),
             Contains("cannot be opened"));
}

TEST_CASE("a missing CUDA library is named, and found in the folders given") {
  TemporaryFolder folder;
  CudaModule::Search search = with_module(folder, "needing_cuda_module.so");
  CHECK_THAT(refusal(search).message(), Contains("needs libhgt_needed.so.9"));

  TemporaryFolder libraries;
  fs::create_symlink(fs::path(build_root()) / "tests/device/hgt_needed.so",
                     libraries / "libhgt_needed.so.9");
  search.library_folders = {folder.path(), libraries.path()};
  CHECK(std::string(CudaModule(search).tables().build) == "needing");
}

TEST_CASE("of two modules, the newest that opens and that the driver serves is taken") {
  TemporaryFolder folder;
  with_module(folder, "fake_cuda_module.so");
  const CudaModule::Search search =
      with_module(folder, "older_cuda_module.so", "hgtrain_cuda12.so");
  const auto build = [&] { return std::string(CudaModule(search).tables().build); };
  CHECK_THAT(build(), Contains("CUDA 13.0"));
  setenv("FAKE_DRIVER_CUDA", "12080", 1);
  CHECK_THAT(build(), Contains("CUDA 12.4"));
  setenv("FAKE_DRIVER_CUDA", "0", 1);  // no driver: none is served
  CHECK_THAT(build(), Contains("CUDA 13.0"));
  setenv("FAKE_DRIVER_CUDA", "11080", 1);
  CHECK_THAT(refusal(CudaModule(search).probe()).message(), Contains("this build needs 12.4"));

  unsetenv("FAKE_DRIVER_CUDA");
}

TEST_CASE("if the driver is known to serve CUDA 12, the module for that is tried first") {
  TemporaryFolder folder;
  with_module(folder, "fake_cuda_module.so");
  CudaModule::Search search = with_module(folder, "older_cuda_module.so", "hgtrain_cuda12.so");
  for (const auto& [version, build] : {std::pair{12080, "CUDA 12.4"}, {13000, "CUDA 13.0"}}) {
    search.driver_version = version;
    CHECK_THAT(CudaModule(search).tables().build, Contains(build));
  }
}

TEST_CASE("of two modules of which the newer does not open, the older is taken") {
  TemporaryFolder folder;
  std::ofstream(folder / "hgtrain_cuda.so") << "text";
  CHECK_THAT(
      CudaModule(with_module(folder, "older_cuda_module.so", "hgtrain_cuda12.so")).tables().build,
      Contains("CUDA 12.4"));
}

TEST_CASE("if no module can be taken, the newest that the driver could serve says why") {
  TemporaryFolder folder;
  with_module(folder, "no_cuda_module.so");
  const CudaModule::Search neither =
      with_module(folder, "other_cuda_module.so", "hgtrain_cuda12.so");
  CHECK_THAT(refusal(neither).message(), Contains("not hgtrain's CUDA module"));

  TemporaryFolder old_driver;
  with_module(old_driver, "fake_cuda_module.so");
  const CudaModule::Search only_newer =
      with_module(old_driver, "other_cuda_module.so", "hgtrain_cuda12.so");
  setenv("FAKE_DRIVER_CUDA", "12080", 1);
  CHECK_THAT(refusal(only_newer).message(), Contains("another build"));
  unsetenv("FAKE_DRIVER_CUDA");
}

TEST_CASE("each state of driver and devices has its own message") {
  CudaProbe probe{};
  probe.runtime_version = 13000;
  probe.status = 35;  // the runtime says so without a driver, too
  CHECK_THAT(refusal(probe).message(), Contains("no NVIDIA driver"));

  probe.driver_version = 12040;
  CHECK_THAT(refusal(probe).message(), Contains("too old") && Contains("12.4") && Contains("13.0"));

  probe.driver_version = 13000;
  probe.status = 100;
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK_THAT(refusal(probe).message(), Contains("no device"));
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  CHECK_THAT(refusal(probe).hint(), Contains("CUDA_VISIBLE_DEVICES is \"7\""));
  unsetenv("CUDA_VISIBLE_DEVICES");

  probe.status = 802;
  CHECK_THAT(refusal(probe).hint(), Contains("fabricmanager"));

  probe.status = 999;
  std::strcpy(probe.status_text, "unknown error");
  CHECK_THAT(refusal(probe).message(), Contains("unknown error") && Contains("999"));

  probe.status = 0;
  CHECK_THAT(refusal(probe).message(), Contains("no device"));
  probe.device_count = 1;
  CHECK_NOTHROW(require_device(probe));
}

TEST_CASE("a failure of the module becomes the same Error again") {
  CHECK_NOTHROW(check(nullptr));
  const CudaFailure failure{static_cast<int>(ErrorKind::kPeer), "message", "hint",
                            "inner\nouter\n"};
  try {
    check(&failure);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kPeer);
    CHECK(error.message() == "message");
    CHECK(error.hint() == "hint");
    CHECK(error.context() == std::vector<std::string>{"inner", "outer"});
  }
}

}  // namespace
}  // namespace hgt
