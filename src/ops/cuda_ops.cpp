#include "hgtrain/ops/cuda_ops.h"

#include "hgtrain/device/cuda_check.h"

#include "attention_cudnn.h"
#include "cuda_launchers.h"

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
  static constexpr CudaOpsTable kTable = {
      .gemm = entry<GemmArgs, cuda::gemm>,
      .embedding_fwd = entry<EmbeddingArgs, cuda::embedding_fwd>,
      .embedding_bwd = entry<EmbeddingBwdArgs, cuda::embedding_bwd>,
      .layer_norm_fwd = entry<LayerNormArgs, cuda::layer_norm_fwd>,
      .layer_norm_bwd = entry<LayerNormBwdArgs, cuda::layer_norm_bwd>,
      .rms_norm_fwd = entry<RmsNormArgs, cuda::rms_norm_fwd>,
      .rms_norm_bwd = entry<RmsNormBwdArgs, cuda::rms_norm_bwd>,
      .rope = entry<RopeArgs, cuda::rope>,
      .dropout_add = entry<DropoutAddArgs, cuda::dropout_add>,
      .activation_fwd = entry<ActivationArgs, cuda::activation_fwd>,
      .activation_bwd = entry<ActivationBwdArgs, cuda::activation_bwd>,
      .gated_activation_fwd = entry<GatedActivationArgs, cuda::gated_activation_fwd>,
      .gated_activation_bwd = entry<GatedActivationBwdArgs, cuda::gated_activation_bwd>,
      .cross_entropy = entry<CrossEntropyArgs, cuda::cross_entropy>,
      .attention_fwd = entry<AttentionArgs, cuda::attention_fwd>,
      .attention_bwd = entry<AttentionBwdArgs, cuda::attention_bwd>,
      .fill = entry<FillArgs, cuda::fill>,
      .cast = entry<CastArgs, cuda::cast>,
      .sum_of_squares = entry<SumOfSquaresArgs, cuda::sum_of_squares>,
      .sum = entry<SumArgs, cuda::sum>,
      .prepare_update = entry<PrepareUpdateArgs, cuda::prepare_update>,
      .update_elements = entry<UpdateElementsArgs, cuda::update_elements>,
      .update_lamb = entry<UpdateLambArgs, cuda::update_lamb>,
      .update_average = entry<UpdateAverageArgs, cuda::update_average>,
      .sample = entry<SampleArgs, cuda::sample>,
      .disable_gemm_autotuning = disable_gemm_autotuning,
      .use_cudnn = use_cudnn,
  };
  return &kTable;
}

}  // namespace hgt
