#include "hgtrain/device/cuda_check.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/gemm.h"

#include "attention_cudnn.h"
#include "gemm_plans.h"
#include "launchers.h"

namespace hgt {
namespace {

/// A launcher as the table requires it: exceptions become results.
template <class Args, void (*launcher)(const Args&, CudaStreamState&)>
CudaResult entry(const Args* args, CudaStreamState* stream) {
  return guarded([&] { launcher(*args, *stream); });
}

CudaResult set_product_timing(CudaStreamState* stream, ProductTiming timing) {
  return guarded([&] { stream->product_timing = timing; });
}

CudaResult product_choices(CudaStreamState* stream, void* to,
                           void (*take)(void*, const char*, const char*, const ProductCounts&)) {
  return guarded([&] {
    const GemmChoices choices = choices_of(*stream);
    const GemmPlans& plans = plans_of(*stream);
    const std::string& basis = plans.cache->basis();
    ProductCounts counts;
    for (const auto& [shape, plan] : plans.plans) {
      const bool is_chosen = choices.contains(shape.text());
      counts.chosen += is_chosen;
      counts.unfused += is_chosen && !plan.algorithm;
      counts.untimed += !is_chosen;
    }
    take(to, basis.c_str(), to_text(basis, choices).c_str(), counts);
  });
}

CudaResult use_product_choices(CudaStreamState* stream, const char* text, std::int64_t* count) {
  return guarded([&] {
    GemmCache& cache = *plans_of(*stream).cache;
    const GemmChoices choices = choices_of(text, cache.basis());
    cache.use(choices);
    *count = std::ssize(choices);
  });
}

CudaResult use_cudnn(void* library, const CudnnOptions* options, CudaStreamState* stream,
                     std::size_t* version) {
  return guarded([&] { *version = cudnn::use(library, *options, *stream); });
}

}  // namespace

const CudaOpsTable* cuda_ops_table() {
#define HGT_ENTRY(op, Args) entry<Args, cuda::op>,
  static constexpr CudaOpsTable kTable = {HGT_CUDA_OPS(HGT_ENTRY) set_product_timing,
                                          product_choices, use_product_choices, use_cudnn};
#undef HGT_ENTRY
  return &kTable;
}

}  // namespace hgt
