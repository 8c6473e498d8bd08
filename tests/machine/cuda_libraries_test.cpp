#include "hgtrain/machine/cuda_libraries.h"

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "support/roots.h"
#include "support/temporary_folder.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

/// A folder with the runtime and cuBLAS of CUDA 12 and 13. What the system itself has comes first.
void put_two_generations(const TemporaryFolder& folder) {
  const fs::path built = fs::path(build_root()) / "tests/machine";
  for (const std::string name : {"libcudart", "libcublasLt"}) {
    fs::create_symlink(built / (name + "12.so"), folder / (name + ".so.12"));
    fs::create_symlink(built / (name + ".so.13"), folder / (name + ".so.13"));
  }
}

TEST_CASE("CUDA's libraries are of the major version asked for, or of the newest") {
  TemporaryFolder folder;
  put_two_generations(folder);
  for (const auto& [asked, found] : {std::pair{12, 12}, {13, 13}, {0, 13}}) {
    const std::vector<CudaLibrary> libraries = cuda_libraries({folder.path()}, asked);
    REQUIRE(libraries.size() == 4);
    CHECK(libraries[0].name == "CUDA runtime");
    CHECK(libraries[0].number / 1000 == found);
    CHECK(libraries[0].file.find(".so." + std::to_string(found)) != std::string::npos);
    CHECK(libraries[1].name == "cuBLAS");
    CHECK(libraries[1].number / 10000 == found);
  }
}

TEST_CASE("a library that is nowhere has no file and no version") {
  const std::vector<CudaLibrary> libraries = cuda_libraries({}, 11);
  CHECK(libraries[0].file.empty());
  CHECK(libraries[0].version.empty());
}

}  // namespace
}  // namespace hgt
