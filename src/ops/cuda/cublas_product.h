#pragma once

// For sources of the CUDA module only: a matrix product by cublasLt, which is column-major.

#include <compare>
#include <cstdint>
#include <cublasLt.h>
#include <string>
#include <vector>

#include "hgtrain/device/unique_handle.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

/// Throws Error(kDevice) with cuBLAS's message if the call failed.
void check_cublas(cublasStatus_t status, const char* call, const char* file, int line);
#define HGT_CUBLAS_CHECK(call) ::hgt::check_cublas((call), #call, __FILE__, __LINE__)

/// A matrix whose columns, or its transpose's, lie `ld` apart.
struct CublasSide {
  std::int64_t ld;
  bool transposed;
  std::uint32_t alignment;  ///< of the first element, in bytes
  auto operator<=>(const CublasSide&) const = default;
};

/// All that decides how a product is computed: c[rows, columns] = left[rows, k] right[k, columns].
/// To cuBLAS a row-major matrix is its transpose, and c^T = b^T a^T: left is b and right is a.
struct CublasShape {
  std::int64_t rows, columns, k;
  CublasSide left, right, c;
  DType type, c_type;  ///< type of left and right, type of c
  bool accumulates;
  GemmEpilogue epilogue;
  std::uint32_t bias_alignment, pre_alignment, added_alignment;  ///< 0 if there is none

  /// The shape of a product whose c is not transposed.
  explicit CublasShape(const GemmArgs& args);
  auto operator<=>(const CublasShape&) const = default;
  std::string text() const;  ///< everything, in one line
};

/// An algorithm of cuBLAS for a shape, and the device memory that it works in.
struct CublasAlgorithm {
  cublasLtMatmulAlgo_t bytes;
  std::size_t workspace_bytes;
};

/// The descriptors of a shape, including its epilogue. An algorithm needs at most
/// cuda::kProductWorkspaceBytes, and sums in fp32, in an order that does not change from run to
/// run.
class CublasProduct {
 public:
  CublasProduct(cublasLtHandle_t handle, const CublasShape& shape, const GemmArgs& args);

  /// Up to 16 algorithms, in cuBLAS's order; none if it cannot compute the shape, or not with the
  /// precision of its type.
  std::vector<CublasAlgorithm> candidates() const;
  /// Whether cuBLAS can compute the shape with an algorithm that was a candidate in another
  /// process; sets the workspace size.
  bool accepts(CublasAlgorithm& algorithm) const;

  /// Queues the product; sums overwrite `bias`. Returns CUBLAS_STATUS_NOT_SUPPORTED or the like if
  /// it was not queued, because a candidate may still fail.
  cublasStatus_t run(const GemmArgs& args, const CublasAlgorithm& algorithm, void* workspace,
                     cudaStream_t stream) const;

 private:
  using Layout = UniqueHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  static Layout layout(std::int64_t rows, std::int64_t columns, const CublasSide& side, DType type);
  void set_epilogue(const GemmArgs& args) const;

  cublasLtHandle_t handle_;
  CublasShape shape_;
  UniqueHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Layout left_, right_, c_;
};

}  // namespace hgt
