#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cublas_product.h"
#include "cuda_launchers.h"

namespace hgt {

/// What a stream keeps of its products.
struct GemmPlans {
  struct Plan {
    CublasProduct product;
    CublasAlgorithm algorithm;
  };
  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
  std::map<CublasShape, Plan> plans;
};

namespace {

GemmPlans& plans_of(CudaStreamState& stream) {
  if (!stream.gemm_plans) {
    cublasLtHandle_t handle = nullptr;
    HGT_CUBLAS_CHECK(cublasLtCreate(&handle));
    stream.gemm_plans = std::make_shared<GemmPlans>();
    stream.gemm_plans->handle = UniqueHandle<cublasLtHandle_t, cublasLtDestroy>(handle);
    stream.reserve(CublasProduct::kMostWorkspace);
  }
  return *stream.gemm_plans;
}

/// The algorithm cuBLAS ranks first for the shape.
GemmPlans::Plan make_plan(cublasLtHandle_t handle, const CublasShape& shape) {
  CublasProduct product(handle, shape);
  const auto candidates = product.candidates();
  if (candidates.empty())
    throw Error(ErrorKind::kDevice, "cuBLAS has no way to compute a product").in(shape.text());
  return {std::move(product), candidates.front()};
}

}  // namespace

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
  GemmPlans& kept = plans_of(stream);
  const CublasShape shape(args);
  auto found = kept.plans.find(shape);
  if (found == kept.plans.end())
    found = kept.plans.emplace(shape, make_plan(kept.handle.get(), shape)).first;
  const auto& [product, algorithm] = found->second;
  HGT_CUBLAS_CHECK(product.run(args, algorithm, stream.at_least(algorithm.workspace_bytes), queue));
}

}  // namespace cuda
}  // namespace hgt
