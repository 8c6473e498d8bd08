#pragma once

#include <cstddef>
#include <cstdint>

#include "hgtrain/device/cuda_table.h"

// The arguments of the CUDA ops: pointers and sizes of operands that the op's header describes and
// its .cpp has checked. All that a kernel sees. Floats are fp32; all memory is the device's.

namespace hgt {

/// c[m, n] = alpha a[m, k] b[k, n] + beta c. Each operand is row-major, or its transpose is.
struct GemmArgs {
  const float *a, *b;
  float* c;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;  ///< distance of rows; of columns where transposed
  bool transposed_a, transposed_b, transposed_c;
  float alpha, beta;
};

/// y[rows, columns] += bias[columns]; rows `stride` apart.
struct AddBiasArgs {
  float* y;
  const float* bias;
  std::int64_t rows, columns, stride;
};

/// sums[columns] += the sum over the rows of x[rows, columns].
struct AddColumnSumsArgs {
  const float* x;
  float* sums;
  std::int64_t rows, columns, stride;
};

struct EmbeddingArgs {
  const std::int32_t* tokens;  ///< [rows]
  const float *table, *positions;
  float* out;
  std::int64_t rows, length, width, vocabulary;
};

struct EmbeddingBwdArgs {
  const std::int32_t* tokens;
  const float* dout;
  float *dtable, *dpositions;
  std::int64_t rows, length, width, vocabulary;
};

struct LayerNormArgs {
  const float *x, *gain, *bias;
  float *y, *mean, *rstd;
  std::int64_t rows, width;
  float eps;
};

struct LayerNormBwdArgs {
  const float *dy, *x, *gain, *mean, *rstd;
  float *dx, *dgain, *dbias;
  std::int64_t rows, width;
  bool accumulate;
};

/// Row i is head i % heads of position i / heads.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t position_stride, head_stride;
};

struct RmsNormArgs {
  HeadRows<const float> x;
  HeadRows<float> y;
  const float* gain;
  float* rrms;
  std::int64_t positions, heads, width;
  float eps;
};

struct RmsNormBwdArgs {
  HeadRows<const float> dy, x;
  HeadRows<float> dx;
  const float *gain, *rrms;
  float* dgain;
  std::int64_t positions, heads, width;
  bool accumulate;
};

/// [batch, position, head, width], the last without gaps.
template <class T>
struct Heads {
  T* data;
  std::int64_t batch_stride, position_stride, head_stride;
};

struct RopeArgs {
  Heads<float> x;
  const float *cos, *sin;  ///< [length, width / 2]
  std::int64_t batch, length, heads, width;
  float direction;  ///< 1 rotates, -1 rotates back
};

/// hgtrain/ops/dropout.h
struct DropoutArgs {
  float probability;
  std::uint64_t seed, step, first_sample, site;
};

/// y = x + dropout(branch); x may be null.
struct DropoutAddArgs {
  const float *x, *branch;
  float* y;
  std::int64_t count, per_sample;
  DropoutArgs dropout;
};

enum class CudaActivation : int { kGeluTanh, kGelu, kRelu, kSilu };

struct ActivationArgs {
  const float* x;
  float* y;
  std::int64_t count;
  CudaActivation f;
};

struct ActivationBwdArgs {
  const float *x, *dy;
  float* dx;
  std::int64_t count;
  CudaActivation f;
};

struct GatedActivationArgs {
  const float* gate_up;
  float* y;
  std::int64_t rows, width;
  CudaActivation f;
};

struct GatedActivationBwdArgs {
  const float *gate_up, *dy;
  float* d_gate_up;
  std::int64_t rows, width;
  CudaActivation f;
};

/// Where `backward`, logits become the gradient of gradient_scale * sum(losses). A target outside
/// the vocabulary gives a loss and gradients that are not numbers.
struct CrossEntropyArgs {
  float* logits;
  const std::int32_t* targets;
  float* losses;
  std::int64_t rows, vocabulary;
  std::int32_t ignored;
  float gradient_scale;
  bool backward;
};

struct AttentionArgs {
  Heads<const float> q, k, v;
  Heads<float> out;
  float* lse;
  std::int64_t batch, queries, keys, heads, key_heads, width, window;
  float scale;
  DropoutArgs dropout;
};

struct AttentionBwdArgs {
  Heads<const float> dout, q, k, v, out;
  const float* lse;
  Heads<float> dq, dk, dv;
  std::int64_t batch, length, heads, key_heads, width, window;
  float scale;
  DropoutArgs dropout;
};

/// values[count] = value.
struct FillArgs {
  float* values;
  std::int64_t count;
  float value;
};

enum class CudaFloat : int { kF32, kBF16, kF16 };

/// to[i] = from[i], rounded to nearest even; one of the two is fp32, and they do not overlap.
struct CastArgs {
  const void* from;
  void* to;
  CudaFloat from_type, to_type;
  std::int64_t count;
};

/// Adam over flat buffers, as hgtrain/optim/optimizer.h has it. Weight decay applies to [0,
/// decay_end).
struct AdamArgs {
  float* parameters;
  const float* gradients;
  float *exp_avg, *exp_avg_sq;
  std::int64_t count, decay_end;
  float lr, beta1, beta2, eps, weight_decay, gradient_factor;
  float inverse_bc1, inverse_sqrt_bc2;
  bool decoupled;
};

/// *out = the sum of the squares, in fp64, in an order that follows from `count` alone.
struct SumOfSquaresArgs {
  const float* values;
  std::int64_t count;
  double* out;
};

/// *out = the sum of the values, in fp64, in an order that follows from `count` alone.
struct SumArgs {
  const float* values;
  std::int64_t count;
  double* out;
};

/// Each queues its op on the stream and returns. What it computes stands in the header of the op.
struct CudaOpsTable {
  template <class Args>
  using Op = CudaResult (*)(const Args* args, CudaStreamState* stream);

  Op<GemmArgs> gemm;
  Op<AddBiasArgs> add_bias;
  Op<AddColumnSumsArgs> add_column_sums;
  Op<EmbeddingArgs> embedding_fwd;
  Op<EmbeddingBwdArgs> embedding_bwd;
  Op<LayerNormArgs> layer_norm_fwd;
  Op<LayerNormBwdArgs> layer_norm_bwd;
  Op<RmsNormArgs> rms_norm_fwd;
  Op<RmsNormBwdArgs> rms_norm_bwd;
  Op<RopeArgs> rope;
  Op<DropoutAddArgs> dropout_add;
  Op<ActivationArgs> activation_fwd;
  Op<ActivationBwdArgs> activation_bwd;
  Op<GatedActivationArgs> gated_activation_fwd;
  Op<GatedActivationBwdArgs> gated_activation_bwd;
  Op<CrossEntropyArgs> cross_entropy;
  Op<AttentionArgs> attention_fwd;
  Op<AttentionBwdArgs> attention_bwd;
  Op<FillArgs> fill;
  Op<CastArgs> cast;
  Op<AdamArgs> adam;
  Op<SumOfSquaresArgs> sum_of_squares;
  Op<SumArgs> sum;
};

}  // namespace hgt
