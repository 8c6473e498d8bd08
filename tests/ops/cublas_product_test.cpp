#include "cuda/cublas_product.h"

#include <catch2/catch.hpp>

#include "gemm_operands.h"

// Against the emulated cuBLAS (tests/emulation), which refuses what the real one may refuse.

using namespace hgt;

namespace {

struct Fixture : GemmOperands {
  using GemmOperands::GemmOperands;
  CublasProduct product() {
    if (!handle) {
      cublasLtHandle_t raw = nullptr;
      REQUIRE(cublasLtCreate(&raw) == CUBLAS_STATUS_SUCCESS);
      handle = decltype(handle)(raw);
    }
    return {handle.get(), CublasShape(args), args};
  }
  std::size_t candidates() { return product().candidates().size(); }

  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
};

}  // namespace

TEST_CASE("every candidate gives the product, or says that it does not") {
  Fixture x;
  const CublasProduct product = x.product();
  const auto candidates = product.candidates();
  CHECK(candidates.size() == 4);
  int ran = 0;
  for (const CublasAlgorithm& candidate : candidates) {
    CublasAlgorithm again{candidate.bytes, 0};
    CHECK(product.accepts(again));
    CHECK(again.workspace_bytes == candidate.workspace_bytes);
    const EmulatedMemory workspace = zeros(static_cast<std::int64_t>(candidate.workspace_bytes));
    std::fill_n(static_cast<float*>(x.args.c), 32, -1.0f);
    if (product.run(x.args, candidate, workspace.get(), nullptr) != CUBLAS_STATUS_SUCCESS) continue;
    ++ran;
    CHECK(x.result() == std::vector<float>(32, 72));
  }
  CHECK(ran == 3);
}

TEST_CASE("operands with less alignment, of start or columns, have fewer algorithms") {
  CHECK(Fixture(8, 4, 12, 1).candidates() == 3);
  CHECK(Fixture(8, 5, 12).candidates() == 3);
}

TEST_CASE("algorithms of other libraries or shapes are refused") {
  Fixture x;
  CublasAlgorithm foreign{};
  CHECK(!x.product().accepts(foreign));
  CublasAlgorithm aligned = x.product().candidates()[1];
  CHECK(x.product().accepts(aligned));
  CHECK(!Fixture(8, 5, 12).product().accepts(aligned));
}

TEST_CASE("a product without enough workspace or with foreign memory is not run") {
  Fixture x;
  CublasAlgorithm halves = x.product().candidates().back();
  REQUIRE(halves.workspace_bytes == 256);
  const EmulatedMemory workspace = zeros(256);
  CHECK(x.product().run(x.args, halves, workspace.get(), nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(x.product().run(x.args, halves, nullptr, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  halves.workspace_bytes = 255;
  CHECK(x.product().run(x.args, halves, workspace.get(), nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  float host[32];
  x.args.c = host;
  CHECK(x.product().run(x.args, x.product().candidates()[0], nullptr, nullptr) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("epilogues have candidates if cuBLAS has them, and in fp32 none that approximate") {
  Fixture x(8, 16, 16);
  x.args.bias = x.bias.get();
  x.args.epilogue = GemmEpilogue::kBias;
  CHECK(x.candidates() == 3);
  x.args.epilogue = GemmEpilogue::kColumnSums;
  CHECK(x.candidates() == 3);
  x.args.bias = nullptr;  // which cuBLAS refuses
  CHECK(x.candidates() == 0);

  const EmulatedMemory pre = zeros(4 * 8 * 16);
  x.args.pre = pre.get();
  for (const GemmEpilogue gelu : {GemmEpilogue::kGelu, GemmEpilogue::kGeluBwd}) {
    x.args.epilogue = gelu;
    x.args.type = x.args.c_type = DType::kF32;
    CHECK(x.candidates() == 0);
    x.args.type = x.args.c_type = DType::kBF16;
    CHECK(x.candidates() == 3);
    x.args.pre = static_cast<std::byte*>(pre.get()) + 2;  // not aligned to 16 bytes
    CHECK(x.candidates() == 0);
    x.args.pre = pre.get();
  }
}

TEST_CASE("different shapes have different texts") {
  Fixture x;
  CHECK(CublasShape(x.args).text() == "4 x 12 x 8, fp32: 4 128, 12 128; fp32: 4 128; plain 0 0");
  x.args.transposed_b = true;
  x.args.beta = 1;
  x.args.epilogue = GemmEpilogue::kColumnSums;
  x.args.bias = static_cast<float*>(x.bias.get()) + 1;
  CHECK(CublasShape(x.args).text() ==
        "4 x 12 x 8, fp32: 4t 128, 12 128; fp32 +=: 4 128; column_sums 4 0");
}
