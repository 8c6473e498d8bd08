#include "hgtrain/train/warm_up.h"

#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/gemm.h"

#include "support/fake_cuda.h"

using namespace hgt;

namespace {

using Catch::Contains;
using Catch::StartsWith;

const char* g_kind;  ///< of the GPU
std::string g_used;
std::int64_t g_untimed = 0;

/// What a rank does whose GPU is of the kind; three ranks cannot compute a model for two.
std::string tune(const char* kind, int rank, Store& store) {
  g_kind = kind;
  CudaOpsTable ops{};
  ops.product_choices = [](CudaStreamState*, void* to, auto* take) -> CudaResult {
    take(to, g_kind, (std::string("choices for ") + g_kind).c_str(),
         {.chosen = 7, .unfused = 3, .untimed = g_untimed});
    return nullptr;
  };
  ops.use_product_choices = [](CudaStreamState*, const char* text, std::int64_t* count) {
    g_used = text;
    *count = 7;
    return CudaResult(nullptr);
  };
  const CudaModule module = fake_cuda::module(&ops, nullptr);
  Config config;
  config.parallelism.tensor_parallel_size = 2;
  config.distributed.timeout_minutes = 1e-3;
  return warm_up(config, rank, 3, store, CudaQueue(Device::cuda(0), module));
}

}  // namespace

TEST_CASE("the first of the ranks with GPUs of one kind chooses for all") {
  MemoryStore store;
  CHECK_THAT(tune("A", 0, store), StartsWith("matrix products: chose how to compute 7 in "));
  CHECK_THAT(tune("B", 1, store), StartsWith("matrix products: chose how to compute 7 in "));
  CHECK(g_used.empty());
  CHECK_THAT(
      tune("A", 2, store),
      StartsWith("matrix products: 7 computed as rank 0 chose, which has the same kind of GPU"));
  CHECK(g_used == "choices for A");
}

TEST_CASE(
    "a rank says for how many products hgtrain's kernels follow, and how many were not timed") {
  MemoryStore store;
  CHECK_THAT(tune("A", 0, store),
             Contains(" s, 3 of them with kernels of hgtrain for bias, GELU or bias gradient;"));
  g_untimed = 2;
  CHECK_THAT(tune("B", 1, store), Contains("bias gradient; no memory to time 2 more"));
  g_untimed = 0;
}

TEST_CASE("a rank that cannot compute a micro-batch says why, and continues") {
  MemoryStore store;
  for (const int rank : {0, 2})
    CHECK_THAT(
        tune("A", rank, store),
        Contains("; a micro-batch could not be computed, because of ") && Contains("tensor"));
}

TEST_CASE("a rank that waits for another's choices in vain names them") {
  MemoryStore store;
  CHECK_THROWS_WITH(tune("A", 2, store), Contains("products/gpu of 0"));
  store.set("products/gpu of 0", "A");
  CHECK_THROWS_WITH(tune("A", 2, store), Contains("products/choices of 0"));
}
