#include "hgtrain/ops/gemm.h"

#include "dispatch.h"

namespace hgt {
namespace {

bool is_transposed(const Tensor& x) {
  return x.stride(1) != 1 && x.size(1) != 1;
}

std::int64_t row_distance(const Tensor& x) {
  return is_transposed(x) ? x.stride(1) : x.stride(0);
}

}  // namespace

GemmArgs gemm_args(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                   Stream stream) {
  const Checks check("gemm", stream);
  check.compute_dtype("a", a);
  check.that(b.dtype() == a.dtype(), "b", "is not of a's type");
  check.that(c.dtype() == a.dtype() || c.dtype() == DType::kF32, "c", "is not of a's type or fp32");
  if (a.dtype() != DType::kF32)
    check.that(alpha == 1 && (beta == 0 || (beta == 1 && c.dtype() == DType::kF32)), "a product",
               "of 16-bit matrices needs alpha = 1, and beta = 0, or 1 if c is fp32");
  for (const Tensor* x : {&a, &b, &c}) {
    check.rank("an operand", *x, 2);
    check.device("an operand", *x);
    check.that(x->stride(0) == 1 || x->stride(1) == 1, "an operand", "has gaps in both dimensions");
  }
  check.that(a.size(1) == b.size(0), "a", "does not have as many columns as b has rows");
  check.that(a.size(1) > 0, "a", "has no columns");
  check.that(c.size(0) == a.size(0) && c.size(1) == b.size(1), "c",
             "does not have the product's shape");
  return {a.raw(),          b.raw(),          c.raw(),         a.dtype(),
          c.dtype(),        c.size(0),        c.size(1),       a.size(1),
          row_distance(a),  row_distance(b),  row_distance(c), is_transposed(a),
          is_transposed(b), is_transposed(c), alpha,           beta};
}

void gemm(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
          Stream stream) {
  const GemmArgs args = gemm_args(alpha, a, b, beta, c, stream);
  const Span span("gemm", product_work(a, b));
  if (!stream.device().is_cpu()) return run_cuda(stream, &CudaOpsTable::gemm, args);
  cpu::gemm(alpha, a, b, beta, c, stream.pool());
}

void set_product_timing(const CudaQueue& queue, ProductTiming timing) {
  check(queue.module().ops().set_product_timing(queue.state(), timing));
}

ProductChoices product_choices(const CudaQueue& queue) {
  ProductChoices out;
  check(queue.module().ops().product_choices(
      queue.state(), &out,
      [](void* to, const char* valid_for, const char* text, const ProductCounts& counts) {
        *static_cast<ProductChoices*>(to) = {valid_for, text, counts};
      }));
  return out;
}

std::int64_t use_product_choices(const CudaQueue& queue, const std::string& text) {
  std::int64_t count = 0;
  check(queue.module().ops().use_product_choices(queue.state(), text.c_str(), &count));
  return count;
}

}  // namespace hgt
