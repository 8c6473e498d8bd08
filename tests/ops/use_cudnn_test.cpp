#include "hgtrain/ops/use_cudnn.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "hgtrain/ops/cuda_ops_table.h"

#include "support/fake_cuda.h"
#include "support/roots.h"

using namespace hgt;

namespace {

/// The folder of a libcudnn.so.9 that the tests of the machine module use.
const std::filesystem::path kLibraries = build_root() + "/tests/machine";

void* g_library;
CudaStreamState* g_stream;
CudnnOptions g_options;

/// A module whose cuDNN is 9.19.2, or one that refuses.
CudaModule module(bool refuses, const std::filesystem::path& folder = kLibraries) {
  static CudaOpsTable ops{};
  static const CudaTables tables{0, "fake", &fake_cuda::device_table(), &ops, nullptr};
  ops.use_cudnn = [](void* library, const CudnnOptions* options, CudaStreamState* stream,
                     std::size_t* version) -> CudaResult {
    g_options = *options;
    g_library = library;
    g_stream = stream;
    *version = 91902;
    return nullptr;
  };
  if (refuses)
    ops.use_cudnn = [](void*, const CudnnOptions*, CudaStreamState*, std::size_t*) -> CudaResult {
      static const CudaFailure failure{static_cast<int>(ErrorKind::kDevice), "too old", "", ""};
      return &failure;
    };
  return CudaModule(tables, {folder});
}

}  // namespace

TEST_CASE("a queue is given cuDNN's library, and its name comes back", "[cudnn]") {
  const CudaModule with_cudnn = module(false);
  const CudaQueue queue(Device::cuda(0), with_cudnn);
  CHECK(use_cudnn(queue, {1000, false}) == "attention backend: cuDNN 9.19.2");
  CHECK((g_options.part_bytes == 1000 && !g_options.deterministic));
  CHECK(g_library == with_cudnn.library("libcudnn.so.9"));
  CHECK(g_stream == queue.state());
  CHECK(dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD) != nullptr);  // for cuDNN
}

TEST_CASE("a machine without cuDNN, and a module without, say so", "[cudnn]") {
  const CudaModule refusing = module(true);
  CHECK(use_cudnn(CudaQueue(Device::cuda(0), refusing)) ==
        "attention backend: own kernels (no cuDNN: too old)");
  CHECK_THROWS_WITH(refusing.library("libnever.so.1"), "libnever.so.1 was not found");
}
