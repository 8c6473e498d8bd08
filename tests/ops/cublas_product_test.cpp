#include "cublas_product.h"

#include <cstring>
#include <memory>

#include <catch2/catch.hpp>

#include "device_memory.h"

// Against the emulated cuBLAS (tests/emulation), which refuses what the real one may refuse.

using namespace hgt;

namespace {

using Memory = std::unique_ptr<void, void (*)(void*)>;

Memory memory(std::int64_t bytes) {
  void* const made = emulation::allocate(static_cast<std::size_t>(bytes));
  std::memset(made, 0, static_cast<std::size_t>(bytes));
  return Memory(made, emulation::release);
}

/// c[m, n] = a[m, k] b[k, n] in fp32, `shift` elements into their memory.
struct Fixture {
  explicit Fixture(std::int64_t m = 8, std::int64_t n = 4, std::int64_t k = 12,
                   std::int64_t shift = 0)
      : a(memory(4 * (m * k + shift))),
        b(memory(4 * (k * n + shift))),
        c(memory(4 * (m * n + shift))),
        args{at(a, shift),
             at(b, shift),
             at(c, shift),
             DType::kF32,
             DType::kF32,
             m,
             n,
             k,
             k,
             n,
             n,
             false,
             false,
             false,
             1,
             0} {
    std::fill_n(static_cast<float*>(const_cast<void*>(args.a)), m * k, 2.0f);
    std::fill_n(static_cast<float*>(const_cast<void*>(args.b)), k * n, 3.0f);
    cublasLtHandle_t raw = nullptr;
    REQUIRE(cublasLtCreate(&raw) == CUBLAS_STATUS_SUCCESS);
    handle = decltype(handle)(raw);
  }
  static float* at(const Memory& memory, std::int64_t shift) {
    return static_cast<float*>(memory.get()) + shift;
  }
  CublasProduct product() const { return {handle.get(), CublasShape(args)}; }

  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
  Memory a, b, c;
  GemmArgs args;
};

}  // namespace

TEST_CASE("every candidate gives the product, or says that it does not") {
  Fixture x(8, 4, 12);
  const CublasProduct product = x.product();
  const auto candidates = product.candidates();
  CHECK(candidates.size() == 4);
  int ran = 0;
  for (const CublasAlgorithm& candidate : candidates) {
    CublasAlgorithm again{candidate.bytes, 0};
    CHECK(product.accepts(again));
    CHECK(again.workspace_bytes == candidate.workspace_bytes);
    const Memory workspace = memory(static_cast<std::int64_t>(candidate.workspace_bytes));
    std::fill_n(static_cast<float*>(x.args.c), 32, -1.0f);
    const cublasStatus_t status = product.run(x.args, candidate, workspace.get(), nullptr);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    ++ran;
    CHECK(static_cast<float*>(x.args.c)[31] == 72);
  }
  CHECK(ran == 3);
}

TEST_CASE("what is aligned to less, in its start or its columns, has fewer algorithms") {
  CHECK(Fixture(8, 4, 12, 1).product().candidates().size() == 3);
  CHECK(Fixture(8, 5, 12).product().candidates().size() == 3);
}

TEST_CASE("algorithms of others are refused, and so are those of other shapes") {
  Fixture x;
  CublasAlgorithm foreign{};
  CHECK(!x.product().accepts(foreign));
  CublasAlgorithm aligned = x.product().candidates()[1];
  CHECK(!Fixture(8, 5, 12).product().accepts(aligned));
}

TEST_CASE("a product that lacks workspace or names memory of others is not run") {
  Fixture x;
  CublasAlgorithm halves = x.product().candidates().back();
  REQUIRE(halves.workspace_bytes == 256);
  const Memory workspace = memory(256);
  CHECK(x.product().run(x.args, halves, workspace.get(), nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(x.product().run(x.args, halves, nullptr, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  halves.workspace_bytes = 255;
  CHECK(x.product().run(x.args, halves, workspace.get(), nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  float host[32];
  x.args.c = host;
  CHECK(x.product().run(x.args, x.product().candidates()[0], nullptr, nullptr) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("a shape's text tells shapes apart") {
  Fixture x;
  const std::string text = CublasShape(x.args).text();
  CHECK(text == "4 x 12 x 8, fp32: 4 256, 12 256; fp32: 4 256");
  x.args.transposed_b = true;
  x.args.beta = 1;
  CHECK(CublasShape(x.args).text() == "4 x 12 x 8, fp32: 4t 256, 12 256; fp32 +=: 4 256");
}
