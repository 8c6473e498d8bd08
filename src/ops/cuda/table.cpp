#include "hgtrain/device/cuda_check.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "attention_cudnn.h"
#include "launchers.h"

namespace hgt {
namespace {

/// A launcher as the table requires it: exceptions become results.
template <class Args, void (*launcher)(const Args&, CudaStreamState&)>
CudaResult entry(const Args* args, CudaStreamState* stream) {
  return guarded([&] { launcher(*args, *stream); });
}

CudaResult disable_gemm_autotuning(CudaStreamState* stream) {
  return guarded([&] { stream->gemm_autotuning_disabled = true; });
}

CudaResult use_cudnn(void* library, CudaStreamState* stream, std::size_t* version) {
  return guarded([&] { *version = cudnn::use(library, *stream); });
}

}  // namespace

const CudaOpsTable* cuda_ops_table() {
#define HGT_ENTRY(op, Args) entry<Args, cuda::op>,
  static constexpr CudaOpsTable kTable = {HGT_CUDA_OPS(HGT_ENTRY) disable_gemm_autotuning,
                                          use_cudnn};
#undef HGT_ENTRY
  return &kTable;
}

}  // namespace hgt
