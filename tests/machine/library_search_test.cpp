#include "hgtrain/machine/library_search.h"

#include <algorithm>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "support/temporary_folder.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

TEST_CASE("CUDA libraries are searched in the toolkit and in PyPI's wheels") {
  TemporaryFolder folder;
  const fs::path wheels = folder / ".venv/lib/python3.11/site-packages/nvidia";
  const fs::path older_wheels = folder / ".venv12/lib/python3.11/site-packages/nvidia";
  const fs::path toolkit = folder / "toolkit/lib64";
  for (const fs::path& path : {fs::path(folder / "build"), wheels / "nccl/lib", wheels / "cu13/lib",
                               older_wheels / "nccl/lib", toolkit})
    fs::create_directories(path);
  setenv("CUDA_PATH", (folder / "toolkit").c_str(), 1);
  const auto found = cuda_library_folders(folder / "build");
  unsetenv("CUDA_PATH");
  for (const fs::path& path :
       {wheels / "nccl/lib", wheels / "cu13/lib", older_wheels / "nccl/lib", toolkit})
    CHECK(std::count(found.begin(), found.end(), path) == 1);
}

TEST_CASE("folders beside the one of a library come before others") {
  CHECK(nearest_first({"/a/nvidia/nccl/lib", "/b/nvidia/nccl/lib", "/b/nvidia/cublas/lib"},
                      "/b/nvidia/cublas/lib/libcublasLt.so.12") ==
        std::vector<fs::path>{"/b/nvidia/cublas/lib", "/b/nvidia/nccl/lib", "/a/nvidia/nccl/lib"});
}

TEST_CASE("a library that the system finds needs no folder") {
  const OpenedLibrary opened = open_library("libc.so.6", {});
  CHECK(opened.handle != nullptr);
  CHECK(opened.missing.empty());
}

TEST_CASE("a library that is found nowhere is reported by its name") {
  const OpenedLibrary opened = open_library("libhgt_nowhere.so.1", {"/nonexistent"});
  CHECK(opened.handle == nullptr);
  CHECK(opened.missing == "libhgt_nowhere.so.1");
}

}  // namespace
}  // namespace hgt
