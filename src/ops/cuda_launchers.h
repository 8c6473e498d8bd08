#pragma once

// For sources of the CUDA module only: each op's launcher, in src/ops/<op>_cuda.cu. They throw
// errors.

#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cuda {

void gemm(const GemmArgs& args, CudaStreamState& stream);
void add_bias(const AddBiasArgs& args, CudaStreamState& stream);
void add_column_sums(const AddColumnSumsArgs& args, CudaStreamState& stream);
void embedding_fwd(const EmbeddingArgs& args, CudaStreamState& stream);
void embedding_bwd(const EmbeddingBwdArgs& args, CudaStreamState& stream);
void layer_norm_fwd(const LayerNormArgs& args, CudaStreamState& stream);
void layer_norm_bwd(const LayerNormBwdArgs& args, CudaStreamState& stream);
void rms_norm_fwd(const RmsNormArgs& args, CudaStreamState& stream);
void rms_norm_bwd(const RmsNormBwdArgs& args, CudaStreamState& stream);
void rope(const RopeArgs& args, CudaStreamState& stream);
void dropout_add(const DropoutAddArgs& args, CudaStreamState& stream);
void activation_fwd(const ActivationArgs& args, CudaStreamState& stream);
void activation_bwd(const ActivationBwdArgs& args, CudaStreamState& stream);
void gated_activation_fwd(const GatedActivationArgs& args, CudaStreamState& stream);
void gated_activation_bwd(const GatedActivationBwdArgs& args, CudaStreamState& stream);
void cross_entropy(const CrossEntropyArgs& args, CudaStreamState& stream);
void attention_fwd(const AttentionArgs& args, CudaStreamState& stream);
void attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream);
void fill(const FillArgs& args, CudaStreamState& stream);
void cast(const CastArgs& args, CudaStreamState& stream);
void sum_of_squares(const SumOfSquaresArgs& args, CudaStreamState& stream);
void sum(const SumArgs& args, CudaStreamState& stream);
void prepare_update(const PrepareUpdateArgs& args, CudaStreamState& stream);
void update_elements(const UpdateElementsArgs& args, CudaStreamState& stream);
void update_lamb(const UpdateLambArgs& args, CudaStreamState& stream);
void update_average(const UpdateAverageArgs& args, CudaStreamState& stream);
void sample(const SampleArgs& args, CudaStreamState& stream);

}  // namespace hgt::cuda
