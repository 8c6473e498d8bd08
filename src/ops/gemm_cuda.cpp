#include <algorithm>
#include <compare>
#include <cstdint>
#include <cublasLt.h>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/unique_handle.h"

#include "cuda_launchers.h"

#define HGT_CUBLAS_CHECK(call) ::hgt::check_cublas((call), #call, __FILE__, __LINE__)

namespace hgt {
namespace {

constexpr std::size_t kWorkspaceBytes =
    32 << 20;  // what cuBLAS asks for on sm_90; fewer are too few there

void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::kDevice, fmt::format("cuBLAS: {}", cublasLtGetStatusString(status)))
      .in(fmt::format("{} at {}:{}", call, file, line));
}

/// A matrix as cuBLAS sees it: columns `ld` apart, or its transpose so.
struct Side {
  std::int64_t ld;
  bool transposed;
  std::uint32_t alignment;  ///< of the first element, in bytes
  auto operator<=>(const Side&) const = default;
};

/// All that decides how a product is computed: c[rows, columns] = left[rows, k] right[k, columns].
struct Shape {
  std::int64_t rows, columns, k;
  Side left, right, c;
  DType type, c_type;  ///< of left and right, of c
  auto operator<=>(const Shape&) const = default;
};

std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & -address, 256));
}

using Layout = UniqueHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

cudaDataType_t cuda_type(DType type) {
  return type == DType::kBF16 ? CUDA_R_16BF : type == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

Layout layout(std::int64_t rows, std::int64_t columns, const Side& side, DType type) {
  if (side.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t raw = nullptr;
  HGT_CUBLAS_CHECK(
      cublasLtMatrixLayoutCreate(&raw, cuda_type(type), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), std::max(side.ld, rows)));
  return Layout(raw);
}

struct Plan {
  UniqueHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Layout left, right, c;
  cublasLtMatmulAlgo_t algorithm;
};

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, T value) {
  HGT_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  HGT_CUBLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

/// The algorithm cuBLAS ranks first for the shape.
Plan make_plan(cublasLtHandle_t handle, const Shape& shape) {
  Plan plan{{},
            layout(shape.rows, shape.k, shape.left, shape.type),
            layout(shape.k, shape.columns, shape.right, shape.type),
            layout(shape.rows, shape.columns, shape.c, shape.c_type),
            {}};
  cublasLtMatmulDesc_t product = nullptr;
  HGT_CUBLAS_CHECK(
      cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));  // fp32 through, no TF32
  plan.product = decltype(plan.product)(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, shape.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, shape.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);

  cublasLtMatmulPreference_t preference = nullptr;
  HGT_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const UniqueHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> owned(preference);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  // Sums are rounded once: where k is split, the parts are added in fp32 and in order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.left.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.right.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c.alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.c.alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  HGT_CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle, product, plan.left.get(),
                                                  plan.right.get(), plan.c.get(), plan.c.get(),
                                                  preference, 1, &found, &count));
  if (count == 0)
    throw Error(ErrorKind::kDevice,
                fmt::format("cuBLAS has no way to compute a product of {} x {} x {}", shape.rows,
                            shape.k, shape.columns));
  plan.algorithm = found.algo;
  return plan;
}

}  // namespace

struct GemmPlans {
  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<Shape, Plan> plans;
};

namespace cuda {

void gemm(const GemmArgs& args, CudaStreamState& stream) {
  if (args.m == 0 || args.n == 0) return;
  if (args.transposed_c) {  // c^T = b^T a^T
    GemmArgs t = args;
    std::swap(t.m, t.n);
    t.a = args.b, t.lda = args.ldb, t.transposed_a = !args.transposed_b;
    t.b = args.a, t.ldb = args.lda, t.transposed_b = !args.transposed_a;
    t.transposed_c = false;
    return gemm(t, stream);
  }
  const cudaStream_t queue = stream.use();
  if (!stream.gemm_plans) {
    cublasLtHandle_t handle = nullptr;
    HGT_CUBLAS_CHECK(cublasLtCreate(&handle));
    stream.gemm_plans = std::make_shared<GemmPlans>();
    stream.gemm_plans->handle = UniqueHandle<cublasLtHandle_t, cublasLtDestroy>(handle);
  }
  // A row-major matrix is its transpose to cuBLAS, and c^T = b^T a^T.
  const Shape shape{args.n,
                    args.m,
                    args.k,
                    {args.ldb, args.transposed_b, alignment_of(args.b)},
                    {args.lda, args.transposed_a, alignment_of(args.a)},
                    {args.ldc, false, alignment_of(args.c)},
                    args.type,
                    args.c_type};
  GemmPlans& cache = *stream.gemm_plans;
  auto found = cache.plans.find(shape);
  if (found == cache.plans.end())
    found = cache.plans.emplace(shape, make_plan(cache.handle.get(), shape)).first;
  const Plan& plan = found->second;
  HGT_CUBLAS_CHECK(cublasLtMatmul(
      cache.handle.get(), plan.product.get(), &args.alpha, args.b, plan.left.get(), args.a,
      plan.right.get(), &args.beta, args.c, plan.c.get(), args.c, plan.c.get(), &plan.algorithm,
      stream.scratch<std::byte>(kWorkspaceBytes), kWorkspaceBytes, queue));
}

}  // namespace cuda
}  // namespace hgt
