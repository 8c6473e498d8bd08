#include "cublas_product.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"

namespace hgt {
namespace {

constexpr int kMaxCandidates = 16;

/// At most what parameters of 16 bits have wherever they lie (ParameterTable::kAlignment), so that
/// a product has one shape in all layers, at all stages of ZeRO, and before the ranks connect.
std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & -address, 128));
}

cublasLtEpilogue_t cublas_epilogue(const CublasShape& shape) {
  switch (shape.epilogue) {
    case GemmEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case GemmEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmEpilogue::kGelu:
      return shape.bias_alignment == 0 ? CUBLASLT_EPILOGUE_GELU_AUX
                                       : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GemmEpilogue::kGeluBwd:
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmEpilogue::kColumnSums:
      return CUBLASLT_EPILOGUE_BGRADA;
    case GemmEpilogue::kRowSums:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw Error(ErrorKind::kInternal,
              fmt::format("GEMM epilogue {} is unknown", static_cast<int>(shape.epilogue)));
}

/// cuBLAS's GELU is an approximation of the one with tanh: good enough for 16 bits. Its gradient
/// together with the bias's (DGELU_BGRAD) would round the bias's gradient to the 16 bits of c.
bool is_precise(const CublasShape& shape) {
  const bool gelu =
      shape.epilogue == GemmEpilogue::kGelu || shape.epilogue == GemmEpilogue::kGeluBwd;
  return !gelu || shape.c_type != DType::kF32;
}

cudaDataType_t cuda_type(DType type) {
  return type == DType::kBF16 ? CUDA_R_16BF : type == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

std::string text_of(const CublasSide& side) {
  return fmt::format("{}{} {}", side.ld, side.transposed ? "t" : "", side.alignment);
}

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

using Preference = UniqueHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Preference preference_of(const CublasShape& shape) {
  cublasLtMatmulPreference_t raw = nullptr;
  HGT_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&raw));
  Preference owned(raw);
  set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{cuda::kProductWorkspaceBytes});
  // Sums are rounded once: if k is split, the parts are added in fp32 and in order.
  set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.left.alignment);
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.right.alignment);
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      shape.added_alignment == 0 ? shape.c.alignment : shape.added_alignment);
  set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.c.alignment);
  return owned;
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::kDevice, fmt::format("cuBLAS: {}", cublasLtGetStatusString(status)))
      .in(fmt::format("{} at {}:{}", call, file, line));
}

CublasShape::CublasShape(const GemmArgs& args)
    : rows(args.n),
      columns(args.m),
      k(args.k),
      left{args.ldb, args.transposed_b, alignment_of(args.b)},
      right{args.lda, args.transposed_a, alignment_of(args.a)},
      c{args.ldc, false, alignment_of(args.c)},
      type(args.type),
      c_type(args.c_type),
      accumulates(args.beta != 0),
      epilogue(args.epilogue),
      bias_alignment(alignment_of(args.bias)),
      pre_alignment(alignment_of(args.pre)),
      added_alignment(alignment_of(args.added)) {}

std::string CublasShape::text() const {
  static constexpr const char* kEpilogues[] = {"plain",    "bias",        "gelu",
                                               "gelu_bwd", "column_sums", "row_sums"};
  return fmt::format("{} x {} x {}, {}: {}, {}; {}{}: {}; {} {} {}", rows, k, columns,
                     name_of(type), text_of(left), text_of(right), name_of(c_type),
                     accumulates ? " +=" : "", text_of(c), kEpilogues[static_cast<int>(epilogue)],
                     bias_alignment, pre_alignment) +
         (added_alignment == 0 ? "" : fmt::format(" + {}", added_alignment));
}

CublasProduct::Layout CublasProduct::layout(std::int64_t rows, std::int64_t columns,
                                            const CublasSide& side, DType type) {
  if (side.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t raw = nullptr;
  HGT_CUBLAS_CHECK(
      cublasLtMatrixLayoutCreate(&raw, cuda_type(type), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), std::max(side.ld, rows)));
  return Layout(raw);
}

CublasProduct::CublasProduct(cublasLtHandle_t handle, const CublasShape& shape,
                             const GemmArgs& args)
    : handle_(handle),
      shape_(shape),
      left_(layout(shape.rows, shape.k, shape.left, shape.type)),
      right_(layout(shape.k, shape.columns, shape.right, shape.type)),
      c_(layout(shape.rows, shape.columns, shape.c, shape.c_type)) {
  cublasLtMatmulDesc_t raw = nullptr;
  HGT_CUBLAS_CHECK(
      cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));  // fp32 throughout, no TF32
  product_ = decltype(product_)(raw);
  set(raw, CUBLASLT_MATMUL_DESC_TRANSA, shape.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(raw, CUBLASLT_MATMUL_DESC_TRANSB, shape.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(raw, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(shape));
  if (shape.pre_alignment != 0) set(raw, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.c.ld);
  set_epilogue(args);  // its alignment matters for the candidates
}

void CublasProduct::set_epilogue(const GemmArgs& args) const {
  if (args.bias != nullptr) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
  if (args.pre != nullptr) set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.pre);
}

std::vector<CublasAlgorithm> CublasProduct::candidates() const {
  if (!is_precise(shape_)) return {};
  const Preference preference = preference_of(shape_);
  cublasLtMatmulHeuristicResult_t found[kMaxCandidates] = {};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, product_.get(), left_.get(), right_.get(), c_.get(),
                                     c_.get(), preference.get(), kMaxCandidates, found, &count);
  std::vector<CublasAlgorithm> out;
  // A failure that an epilogue's operands cause (their alignment, say) does not occur with the
  // plain product.
  const bool plain = shape_.epilogue == GemmEpilogue::kNone && shape_.added_alignment == 0;
  if (plain && status != CUBLAS_STATUS_NOT_SUPPORTED) HGT_CUBLAS_CHECK(status);
  if (status != CUBLAS_STATUS_SUCCESS) return out;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS)
      out.push_back({found[i].algo, found[i].workspaceSize});
  return out;
}

bool CublasProduct::accepts(CublasAlgorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle_, product_.get(), left_.get(), right_.get(), c_.get(),
                              c_.get(), &algorithm.bytes, &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > std::size_t{cuda::kProductWorkspaceBytes})
    return false;
  algorithm.workspace_bytes = result.workspaceSize;
  return true;
}

cublasStatus_t CublasProduct::run(const GemmArgs& args, const CublasAlgorithm& algorithm,
                                  void* workspace, cudaStream_t stream) const {
  set_epilogue(args);
  const void* const added = args.added != nullptr ? args.added : args.c;
  const float beta = args.added != nullptr ? 1 : args.beta;
  return cublasLtMatmul(handle_, product_.get(), &args.alpha, args.b, left_.get(), args.a,
                        right_.get(), &beta, added, c_.get(), args.c, c_.get(), &algorithm.bytes,
                        workspace, algorithm.workspace_bytes, stream);
}

}  // namespace hgt
