#include "products.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/ops/gemm.h"

namespace hgt::cpu {

// oneDNN 2 and 3 have the same function.
void sgemm(const Sgemm& g) {
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, g.a,
                 g.lda, g.b, g.ldb, g.beta, g.c, g.ldc);
  if (status != dnnl_success)
    throw Error(ErrorKind::kInternal,
                fmt::format("oneDNN refused sgemm {}x{}x{} (lda {}, ldb {}, ldc {}): status {}",
                            g.m, g.n, g.k, g.lda, g.ldb, g.ldc, static_cast<int>(status)));
}

namespace {

// ---- with the CPU's 16-bit instructions ----

dnnl::memory::desc description(std::int64_t rows, std::int64_t columns, bool transposed,
                               std::int64_t ld, bool wide) {
  using Memory = dnnl::memory;
  const Memory::dims strides = transposed ? Memory::dims{1, ld} : Memory::dims{ld, 1};
  return {{rows, columns}, wide ? Memory::data_type::f32 : Memory::data_type::bf16, strides};
}

dnnl::matmul make_matmul(const NarrowProduct<BFloat16>& p, const dnnl::engine& engine) {
  const auto a = description(p.m, p.k, p.transpose_a, p.lda, false);
  const auto b = description(p.k, p.n, p.transpose_b, p.ldb, false);
  const auto c = description(p.m, p.n, false, p.ldc, p.wide);
  dnnl::primitive_attr attributes;
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul({engine, a, b, c, attributes});
#else
  return dnnl::matmul({dnnl::matmul::desc(a, b, c), attributes, engine});
#endif
}

/// A kernel and its operands, whose addresses change from call to call.
struct Kernel {
  dnnl::matmul product;
  dnnl::memory a, b, c;
};

/// The calling thread's kernels by shape, because making one takes longer than running it.
class Matmuls {
 public:
  void run(const NarrowProduct<BFloat16>& p) {
    const Key key{p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.transpose_a, p.transpose_b, p.add, p.wide};
    auto found = kernels_.find(key);
    if (found == kernels_.end()) found = kernels_.emplace(key, make_kernel(p)).first;
    const auto& [product, a, b, c] = found->second;
    a.set_data_handle(const_cast<BFloat16*>(p.a));
    b.set_data_handle(const_cast<BFloat16*>(p.b));
    c.set_data_handle(p.c);
    // The same as dnnl::matmul::execute, which allocates its list of arguments each time.
    const dnnl_exec_arg_t operands[] = {
        {DNNL_ARG_SRC, a.get()}, {DNNL_ARG_WEIGHTS, b.get()}, {DNNL_ARG_DST, c.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(product.get(), stream_.get(), 3, operands),
                            "oneDNN refused a product");
  }

 private:
  Kernel make_kernel(const NarrowProduct<BFloat16>& p) const {
    const auto place = [&](const dnnl::memory::desc& desc) {
      return dnnl::memory(desc, engine_, nullptr);
    };
    return {make_matmul(p, engine_), place(description(p.m, p.k, p.transpose_a, p.lda, false)),
            place(description(p.k, p.n, p.transpose_b, p.ldb, false)),
            place(description(p.m, p.n, false, p.ldc, p.wide))};
  }

  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, bool, bool, bool, bool>;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Kernel> kernels_;
};

// ---- in fp32 ----

constexpr std::int64_t kBlock = kWidenedBlock, kDepth = kWidenedDepth;

/// Rows [begin, begin + rows) and columns [first, first + depth) of op(x) in its stored order,
/// without gaps: [rows, depth], or [depth, rows] if x is stored as its transpose.
template <class T>
void widen(const T* x, std::int64_t ld, bool transposed, std::int64_t begin, std::int64_t height,
           std::int64_t first, std::int64_t depth, float* out) {
  const std::int64_t rows = transposed ? depth : height, columns = transposed ? height : depth;
  const T* const from = transposed ? x + first * ld + begin : x + begin * ld + first;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const row = from + r * ld;
    float* const to = out + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) to[c] = row[c];
  }
}

/// A block of c, over all of k: fp32 in place, otherwise in `sums`, which are rounded at the end.
template <class T>
void widened_block(const NarrowProduct<T>& p, std::int64_t row, std::int64_t column,
                   float* scratch) {
  const std::int64_t rows = std::min(kBlock, p.m - row), columns = std::min(kBlock, p.n - column);
  float* const a = scratch;
  float* const b = a + kBlock * kDepth;
  float* const sums = b + kBlock * kDepth;
  float* const c = p.wide ? static_cast<float*>(p.c) + row * p.ldc + column : sums;
  const std::int64_t ldc = p.wide ? p.ldc : columns;
  for (std::int64_t first = 0; first < std::max<std::int64_t>(p.k, 1); first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p.k - first);
    widen(p.a, p.lda, p.transpose_a, row, rows, first, depth, a);
    widen(p.b, p.ldb, !p.transpose_b, column, columns, first, depth, b);
    const float beta = first > 0 || (p.wide && p.add) ? 1.0f : 0.0f;
    sgemm({p.transpose_a, p.transpose_b, rows, columns, depth, 1, a, p.transpose_a ? rows : depth,
           b, p.transpose_b ? depth : columns, beta, c, ldc});
  }
  if (p.wide) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    T* const out = static_cast<T*>(p.c) + (row + r) * p.ldc + column;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) out[i] = sums[r * columns + i];
  }
}

template <class T>
void widened_product(const NarrowProduct<T>& p, float* scratch) {
  for (std::int64_t row = 0; row < p.m; row += kBlock)
    for (std::int64_t column = 0; column < p.n; column += kBlock)
      widened_block(p, row, column, scratch);
}

}  // namespace

}  // namespace hgt::cpu

namespace hgt {

bool cpu_multiplies(DType dtype) {
  if (dtype != DType::kBF16) return dtype == DType::kF32;
  static const bool native = static_cast<int>(dnnl::get_effective_cpu_isa()) >=
                             static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return native;
}

}  // namespace hgt

namespace hgt::cpu {

std::int64_t narrow_product_scratch(DType dtype) {
  return cpu_multiplies(dtype) ? 0 : kWidenedFloats;
}

void narrow_product(const NarrowProduct<BFloat16>& p, float* scratch) {
  if (!cpu_multiplies(DType::kBF16)) return widened_product(p, scratch);
  thread_local Matmuls matmuls;
  matmuls.run(p);
}

void narrow_product(const NarrowProduct<Half>& p, float* scratch) {
  widened_product(p, scratch);
}

}  // namespace hgt::cpu
