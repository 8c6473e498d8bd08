#include "products.h"

#include <array>
#include <map>
#include <sys/syscall.h>
#include <tuple>
#include <type_traits>
#include <unistd.h>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/gemm.h"

#include "packed_product.h"

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

dnnl::memory::desc description(std::int64_t rows, std::int64_t columns, bool transposed,
                               std::int64_t ld, bool wide) {
  using Memory = dnnl::memory;
  const Memory::dims strides = transposed ? Memory::dims{1, ld} : Memory::dims{ld, 1};
  return {{rows, columns}, wide ? Memory::data_type::f32 : Memory::data_type::bf16, strides};
}

dnnl::matmul make_matmul(const Product<BFloat16>& p, const dnnl::engine& engine) {
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
  void run(const Product<BFloat16>& p) {
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
  Kernel make_kernel(const Product<BFloat16>& p) const {
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

/// oneDNN's values are sets of bits.
bool has_instructions(dnnl::cpu_isa isa) {
  const int wanted = static_cast<int>(isa);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

const PackedKernels& packed_kernels() {
#ifdef HGT_PACKED_AVX512
  static const bool has_avx512 = has_instructions(dnnl::cpu_isa::avx512_core);
  if (has_avx512) return kPackedKernelsAvx512;
#endif
  return kPackedKernels;
}

}  // namespace

}  // namespace hgt::cpu

namespace hgt {

bool cpu_multiplies(DType dtype) {
  if (dtype == DType::kF32) return true;
  if (dtype == DType::kF16) return cpu::may_use_amx();
  static const bool fast = cpu::has_instructions(dnnl::cpu_isa::avx512_core_amx) ||
                           (cpu::multiplies_bf16() && cpu::bf16_pairs_pay());
  return fast;
}

}  // namespace hgt

namespace hgt::cpu {

std::string_view name_of(ProductKernel kernel) {
  constexpr std::array<std::string_view, 3> kNames{"oneDNN", "own", "MKL"};
  return kNames[static_cast<std::size_t>(kernel)];
}

bool multiplies_bf16() {
  return has_instructions(dnnl::cpu_isa::avx512_core_bf16);
}

bool bf16_pairs_pay() {
#ifdef __x86_64__
  static const bool pay = !__builtin_cpu_is("intel");
  return pay;
#else
  return true;
#endif
}

bool may_use_amx() {
#ifdef HGT_AMX
  constexpr int kRequestState = 0x1023, kTileData = 18;  // of Linux's arch_prctl
  static const bool may = has_instructions(dnnl::cpu_isa::avx512_core_amx) &&
                          syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
  return may;
#else
  return false;
#endif
}

void library_product(const Product<float>& p) {
  sgemm({p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1, p.a, p.lda, p.b, p.ldb,
         p.add ? 1.0f : 0.0f, static_cast<float*>(p.c), p.ldc});
}

std::string library_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{} with instructions {:#x}", version.major, version.minor,
                     version.patch, static_cast<int>(dnnl::get_effective_cpu_isa()));
}

void library_product(const Product<BFloat16>& p) {
  thread_local Matmuls matmuls;
  matmuls.run(p);
}

template <class T>
void packed_product(const Product<T>& p, float* scratch) {
#ifdef HGT_AMX
  if (may_use_amx()) return amx_product(p, scratch);
#endif
  if constexpr (std::is_same_v<T, float>)
    packed_kernels().f32(p, scratch);
  else if constexpr (std::is_same_v<T, BFloat16>)
    packed_kernels().bf16(p, scratch);
  else
    packed_kernels().f16(p, scratch);
}
template void packed_product(const Product<float>&, float*);
template void packed_product(const Product<BFloat16>&, float*);
template void packed_product(const Product<Half>&, float*);

}  // namespace hgt::cpu
