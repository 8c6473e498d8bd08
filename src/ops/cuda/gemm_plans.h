#pragma once

// For sources of the CUDA module only: which algorithm computes each product.

#include <map>
#include <memory>
#include <optional>

#include "hgtrain/device/cuda_stream_state.h"

#include "../gemm_cache.h"
#include "cublas_product.h"

namespace hgt {

struct GemmPlan {
  CublasProduct product;
  std::optional<CublasAlgorithm> algorithm;  ///< none: the plain product, then kernels of ours
};

/// A stream's state of its products.
struct GemmPlans {
  explicit GemmPlans(std::shared_ptr<GemmCache> cache);

  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
  std::shared_ptr<GemmCache> cache;
  std::map<CublasShape, GemmPlan> plans;
};

/// The plan for a shape (c not transposed): the cache's, or else the fastest of cuBLAS's candidates
/// and, with an epilogue, of the plain product and a kernel. They are timed on the stream, and each
/// is waited for. Timing writes c and pre if the product overwrites them anyway; what the product
/// adds to is not touched.
///
/// If timing is impossible, because the stream is being captured or there is no memory for a
/// temporary that the product can add to, or if the stream times no products, the plan is cuBLAS's
/// first candidate, and kernels for the epilogue. Such a plan holds for this stream only, and is
/// not kept in a file.
const GemmPlan& plan_of(const GemmArgs& args, CudaStreamState& stream);

/// The stream's state, made by the first call.
GemmPlans& plans_of(CudaStreamState& stream);
/// The cache's choices for the shapes that the stream has plans for.
GemmChoices choices_of(CudaStreamState& stream);

/// Queues the product with its epilogue; returns CUBLAS_STATUS_NOT_SUPPORTED or the like if cuBLAS
/// does not support it.
cublasStatus_t run_fused(const CublasProduct& product, const CublasAlgorithm& algorithm,
                         const GemmArgs& args, CudaStreamState& stream);
/// Queues the plain product, and kernels for the epilogue.
void run_unfused(const GemmArgs& args, CudaStreamState& stream);

}  // namespace hgt
