#include <utility>

#include "cublas_product.h"
#include "gemm_plans.h"
#include "launchers.h"

namespace hgt {
namespace {

bool is_sums(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::kColumnSums || epilogue == GemmEpilogue::kRowSums;
}

/// c^T = b^T a^T: the same product whose c is not transposed.
GemmArgs transposed(const GemmArgs& args) {
  GemmArgs t = args;
  std::swap(t.m, t.n);
  t.a = args.b, t.lda = args.ldb, t.transposed_a = !args.transposed_b;
  t.b = args.a, t.ldb = args.lda, t.transposed_b = !args.transposed_a;
  t.transposed_c = !args.transposed_c;
  if (is_sums(args.epilogue))
    t.epilogue = args.epilogue == GemmEpilogue::kRowSums ? GemmEpilogue::kColumnSums
                                                         : GemmEpilogue::kRowSums;
  return t;
}

GemmArgs without_epilogue(const GemmArgs& args) {
  GemmArgs plain = args;
  plain.epilogue = GemmEpilogue::kNone;
  plain.bias = plain.pre = nullptr;
  plain.added = nullptr;
  return plain;
}

}  // namespace

cublasStatus_t run_fused(const CublasProduct& product, const CublasAlgorithm& algorithm,
                         const GemmArgs& args, CudaStreamState& stream) {
  if (!is_sums(args.epilogue))
    return product.run(args, algorithm, stream.ensure_scratch(algorithm.workspace_bytes),
                       stream.use());
  // cuBLAS overwrites the sums: here they are written after its workspace, and added from there.
  const std::int64_t count = args.epilogue == GemmEpilogue::kColumnSums ? args.n : args.m;
  const auto workspace_floats =
      static_cast<std::int64_t>((algorithm.workspace_bytes + 255) / 256 * 64);
  float* const scratch = stream.scratch<float>(workspace_floats + count);
  GemmArgs to_scratch = args;
  to_scratch.bias = scratch + workspace_floats;
  const cublasStatus_t status = product.run(to_scratch, algorithm, scratch, stream.use());
  if (status == CUBLAS_STATUS_SUCCESS)
    cuda::add_bias({args.bias, to_scratch.bias, DType::kF32, 1, count, count}, stream);
  return status;
}

void run_unfused(const GemmArgs& args, CudaStreamState& stream) {
  if (args.added != nullptr) {
    GemmArgs product = args;
    product.added = nullptr;
    cuda::gemm(product, stream);
    const std::int64_t count = args.m * args.n;
    return cuda::dropout_add({args.c, args.added, args.c, args.c_type, count, args.n, {}, {}},
                             stream);
  }
  GemmArgs plain = without_epilogue(args);
  if (args.epilogue == GemmEpilogue::kGelu) {
    plain.c = args.pre;
    if (args.bias != nullptr) {
      plain.epilogue = GemmEpilogue::kBias;
      plain.bias = args.bias;
    }
  }
  cuda::gemm(plain, stream);
  const std::int64_t count = args.m * args.n;
  switch (args.epilogue) {
    case GemmEpilogue::kNone:
      return;
    case GemmEpilogue::kBias:
      return cuda::add_bias({args.c, args.bias, args.c_type, args.m, args.n, args.ldc}, stream);
    case GemmEpilogue::kGelu:
      return cuda::activation_fwd({args.pre, args.c, args.c_type, count, Activation::kGeluTanh},
                                  stream);
    case GemmEpilogue::kGeluBwd:
      return cuda::activation_bwd(
          {args.pre, args.c, args.c, args.c_type, count, Activation::kGeluTanh}, stream);
    case GemmEpilogue::kColumnSums:
      return cuda::add_column_sums(
          {args.b, args.type, static_cast<float*>(args.bias), args.k, args.n, args.ldb}, stream);
    case GemmEpilogue::kRowSums:
      return cuda::add_column_sums(
          {args.a, args.type, static_cast<float*>(args.bias), args.k, args.m, args.lda}, stream);
  }
}

namespace cuda {

void gemm(const GemmArgs& args, CudaStreamState& stream) {
  if (args.m == 0 || args.n == 0) return;
  if (args.transposed_c) return gemm(transposed(args), stream);
  const GemmPlan& plan = plan_of(args, stream);
  if (!plan.algorithm) return run_unfused(args, stream);
  HGT_CUBLAS_CHECK(run_fused(plan.product, *plan.algorithm, args, stream));
}

}  // namespace cuda
}  // namespace hgt
