#include "cuda/attention_cudnn.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/machine/library_search.h"

// cuDNN can say without a GPU whether it supports a graph on a described device. It needs a
// driver's library, and the one that the toolkit has for the linker is enough.

using namespace hgt;

/// Stands for streams, which are not used here.
void* CudaStreamState::ensure_scratch(std::size_t) {
  throw std::logic_error("nothing runs here");
}

namespace {

/// The properties of an H100, except for the architecture.
cudnn::AbsentDevice device(int sm) {
  return {sm, R"({"deviceName": "a GPU", "deviceVer": )" + std::to_string(10 * sm) + R"(,
    "cudaDeviceId": 0, "pciDeviceId": 0, "driverVer": 13000, "isTccDriver": 0,
    "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "supportCoopLaunch": 1, "totalGlobalMem": 85000000000,
    "l2CacheSize": 52428800, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000})"};
}

/// Ends the program as skipped if cuDNN is not installed here.
void need_cudnn() {
  static void* const library = dlopen(HGT_LINK_DRIVER, RTLD_NOW) == nullptr
                                   ? nullptr
                                   : open_library("libcudnn.so.9", cuda_library_folders({})).handle;
  if (library == nullptr) {
    std::puts("skipped: there is no cuDNN");
    std::exit(77);
  }
  cudnn::use_library(library);
}

struct Case {
  std::int64_t batch, length, heads, key_heads, width, window;
};

/// q, k and v lie in rows of one buffer, as in a model; so do their gradients in another.
template <class T>
Heads<T> in_rows(const Case& c, std::int64_t row) {
  return {nullptr, c.length * row, row, c.width};
}

AttentionArgs forward(const Case& c, DType type) {
  AttentionArgs args{};
  args.q = args.k = args.v = in_rows<const void>(c, (c.heads + 2 * c.key_heads) * c.width);
  args.out = in_rows<void>(c, c.heads * c.width);
  args.type = type;
  args.batch = c.batch, args.queries = args.keys = c.length;
  args.heads = c.heads, args.key_heads = c.key_heads, args.width = c.width;
  args.window = c.window, args.scale = 0.125f;
  return args;
}

AttentionBwdArgs backward(const Case& c, DType type) {
  AttentionBwdArgs args{};
  const std::int64_t row = (c.heads + 2 * c.key_heads) * c.width;
  args.q = args.k = args.v = in_rows<const void>(c, row);
  args.dq = args.dk = args.dv = in_rows<void>(c, row);
  args.out = args.dout = in_rows<const void>(c, c.heads * c.width);
  args.type = type;
  args.batch = c.batch, args.queries = args.keys = c.length;
  args.heads = c.heads, args.key_heads = c.key_heads, args.width = c.width;
  args.window = c.window, args.scale = 0.125f;
  return args;
}

}  // namespace

TEST_CASE("cuDNN supports the models' attention on sm_80, sm_89 and sm_90", "[cudnn]") {
  need_cudnn();
  for (const int sm : {80, 89, 90})
    for (const DType type : {DType::kBF16, DType::kF16})
      for (const Case& c : {Case{64, 1024, 12, 12, 64, 0}, Case{2, 1000, 25, 25, 64, 0},
                            Case{4, 2048, 32, 8, 128, 0}, Case{2, 300, 4, 2, 128, 100},
                            Case{2, 37, 4, 2, 24, 5}, Case{3, 64, 2, 1, 64, 1000}}) {
        CAPTURE(sm, c.length, c.width, c.window);
        CHECK_NOTHROW(cudnn::require_support(forward(c, type), device(sm)));
        CHECK_NOTHROW(cudnn::require_support(backward(c, type), device(sm)));
        CHECK_NOTHROW(
            cudnn::require_support(backward(c, type), device(sm), {.deterministic = false}));
      }
}

TEST_CASE("cuDNN builds the plans of attention until the driver is to load their kernels",
          "[cudnn]") {
  need_cudnn();
  const Case c{64, 1024, 12, 12, 64, 0};
  const auto failure = [](const std::function<void()>& build) -> std::string {
    try {
      build();
    } catch (const Error& e) {
      return e.message();
    }
    return "cuLibraryLoadData returned error";  // a real driver, which has loaded them
  };
  for (const int sm : {80, 90}) {
    CAPTURE(sm);
    const auto at = device(sm);
    CHECK_THAT(failure([&] { cudnn::build_plan(forward(c, DType::kBF16), at); }),
               Catch::Contains("cuLibraryLoadData returned error"));
    for (const bool deterministic : {false, true})
      CHECK_THAT(failure([&] {
                   cudnn::build_plan(backward(c, DType::kBF16), at,
                                     {.deterministic = deterministic});
                 }),
                 Catch::Contains("cuLibraryLoadData returned error"));
  }
}

TEST_CASE("an op that cuDNN does not support is refused with its message", "[cudnn]") {
  need_cudnn();
  CHECK_THROWS_WITH(cudnn::require_support(forward({2, 64, 2, 2, 64, 0}, DType::kBF16), device(75)),
                    Catch::Contains("SM80"));
  CHECK_THROWS_WITH(cudnn::require_support(forward({2, 64, 2, 2, 20, 0}, DType::kBF16), device(90)),
                    Catch::Contains("cuDNN: "));
}

TEST_CASE("parts of a backward divide its samples, or a sample's heads, and stay small") {
  struct Shape {
    bool backward;
    std::int64_t batch, length, heads, key_heads;
  };
  const auto part = [](const Shape& s, const CudnnOptions& options = {}) {
    const cudnn::AttentionPart out = cudnn::attention_part(s, options);
    return std::vector{out.samples, out.key_heads, out.heads(s)};
  };
  CHECK(part({false, 64, 1024, 12, 12}) == std::vector<std::int64_t>{64, 12, 12});
  CHECK(part({true, 64, 1024, 12, 12}) == std::vector<std::int64_t>{8, 12, 12});
  CHECK(part({true, 7, 1024, 12, 12}) == std::vector<std::int64_t>{7, 12, 12});
  CHECK(part({true, 11, 1024, 12, 12}) == std::vector<std::int64_t>{1, 12, 12});
  CHECK(part({true, 4, 2048, 32, 8}) == std::vector<std::int64_t>{1, 8, 32});
  CHECK(part({true, 2, 4096, 32, 8}) == std::vector<std::int64_t>{1, 2, 8});
  CHECK(part({true, 2, 32768, 32, 8}) == std::vector<std::int64_t>{1, 1, 4});
  CHECK(part({true, 64, 1024, 12, 12}, {.part_bytes = std::int64_t{2} << 30}) ==
        std::vector<std::int64_t>{64, 12, 12});
  CHECK(part({true, 2, 32768, 32, 8}, {.deterministic = false}) ==
        std::vector<std::int64_t>{2, 8, 32});
}
