#pragma once

// For sources of the CUDA module only: a matrix product as cublasLt has it, columns without gaps.

#include <compare>
#include <cstdint>
#include <cublasLt.h>
#include <string>
#include <vector>

#include "hgtrain/device/unique_handle.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

/// Throws Error(kDevice) with cuBLAS's words where the call failed.
void check_cublas(cublasStatus_t status, const char* call, const char* file, int line);
#define HGT_CUBLAS_CHECK(call) ::hgt::check_cublas((call), #call, __FILE__, __LINE__)

/// A matrix whose columns are `ld` apart, or its transpose's are.
struct CublasSide {
  std::int64_t ld;
  bool transposed;
  std::uint32_t alignment;  ///< of the first element, in bytes
  auto operator<=>(const CublasSide&) const = default;
};

/// All that decides how a product is computed: c[rows, columns] = left[rows, k] right[k, columns].
/// A row-major matrix is its transpose to cuBLAS, and c^T = b^T a^T: left is b and right is a.
struct CublasShape {
  std::int64_t rows, columns, k;
  CublasSide left, right, c;
  DType type, c_type;  ///< of left and right, of c
  bool accumulates;
  GemmEpilogue epilogue;
  std::uint32_t bias_alignment, pre_alignment;  ///< 0 where there is none

  /// Of a product whose c is not transposed.
  explicit CublasShape(const GemmArgs& args);
  auto operator<=>(const CublasShape&) const = default;
  std::string text() const;  ///< all of it, in one line
};

/// One of the ways in which cuBLAS computes a shape, and the device memory it works in.
struct CublasAlgorithm {
  cublasLtMatmulAlgo_t bytes;
  std::size_t workspace_bytes;
};

/// The descriptors of a shape, its epilogue among them. An algorithm needs at most kMostWorkspace,
/// and adds up in fp32, in an order that does not change from run to run.
class CublasProduct {
 public:
  static constexpr std::size_t kMostWorkspace = 32 << 20;  // what cuBLAS asks for on sm_90

  CublasProduct(cublasLtHandle_t handle, const CublasShape& shape, const GemmArgs& args);

  /// Up to 16 algorithms, as cuBLAS ranks them; none where it cannot compute the shape, or not to
  /// the precision that its type stands for.
  std::vector<CublasAlgorithm> candidates() const;
  /// Whether cuBLAS can compute the shape by what was one of its candidates in another process;
  /// fills in the workspace.
  bool accepts(CublasAlgorithm& algorithm) const;

  /// Queues the product; sums overwrite `bias`. CUBLAS_STATUS_NOT_SUPPORTED and the like where it
  /// was not queued: a candidate is no promise.
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
