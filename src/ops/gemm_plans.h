#pragma once

// For sources of the CUDA module only: which way each product takes.

#include <map>
#include <memory>
#include <optional>

#include "hgtrain/device/cuda_stream_state.h"

#include "cublas_product.h"
#include "gemm_cache.h"

namespace hgt {

struct GemmPlan {
  CublasProduct product;
  std::optional<CublasAlgorithm> algorithm;  ///< none: the plain product, then kernels of ours
};

/// What a stream keeps of its products.
struct GemmPlans {
  explicit GemmPlans(std::shared_ptr<GemmCache> cache);

  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle;
  std::shared_ptr<GemmCache> cache;
  std::map<CublasShape, GemmPlan> plans;
};

/// The way for a shape (c not transposed): the cache's, or else the quickest of cuBLAS's candidates
/// and, with an epilogue, of the plain product and a kernel. They are timed on the stream, which
/// waits for each; c and pre are written where they are to be overwritten anyway, what is added to
/// is not touched.
///
/// Where nothing can be timed, because the stream is being captured or there is no memory to add
/// to, or shall be, because its products are fixed, it is the candidate that cuBLAS ranks first,
/// and kernels for the epilogue: for this stream, and in no file.
const GemmPlan& plan_of(const GemmArgs& args, CudaStreamState& stream);

/// Queues the product with its epilogue; CUBLAS_STATUS_NOT_SUPPORTED and the like where cuBLAS does
/// not.
cublasStatus_t run_whole(const CublasProduct& product, const CublasAlgorithm& algorithm,
                         const GemmArgs& args, CudaStreamState& stream);
/// Queues the plain product, and kernels for the epilogue.
void run_apart(const GemmArgs& args, CudaStreamState& stream);

}  // namespace hgt
