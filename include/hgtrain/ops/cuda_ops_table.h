#pragma once

#include <cstddef>
#include <cstdint>

#include "hgtrain/base/activation.h"
#include "hgtrain/base/dtype.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/device/cuda_table.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/flat_piece.h"
#include "hgtrain/ops/update.h"

// The arguments of the CUDA ops: pointers and sizes of operands that the op's header describes and
// its .cpp has checked. A kernel sees nothing else. A `void` operand has elements of `type`: fp32,
// bf16 or fp16. All memory is device memory.

namespace hgt {

/// What else is computed with a product, from its result or from an operand. Except for the sums, c
/// is row-major, alpha = 1 and beta = 0.
enum class GemmEpilogue : int {
  kNone,
  kBias,        ///< c = a b + bias[n]
  kGelu,        ///< pre = a b + bias (or none), c = gelu_tanh(pre)
  kGeluBwd,     ///< c = a b gelu_tanh'(pre)
  kColumnSums,  ///< bias[n] += the column sums of b
  kRowSums,     ///< bias[m] += the row sums of a
};

/// c[m, n] = alpha a[m, k] b[k, n] + beta c. Each operand is row-major, or its transpose is.
///
/// Moves a, b and c once, and an epilogue's operands, if cuBLAS computes it all. If another kernel
/// computes the epilogue, it moves c twice more or, for sums, their operand once more.
struct GemmArgs {
  const void *a, *b;
  void* c;
  DType type, c_type;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;  ///< distance of rows; of columns if transposed
  bool transposed_a, transposed_b, transposed_c;
  float alpha, beta;
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  void* bias = nullptr;  ///< of c's type; fp32 for sums, and so is c then
  void* pre = nullptr;   ///< [m, n] of c's type; neither it nor c has gaps
  /// [m, n] of c's type, without gaps, as c: it is added to c, with any of the first two epilogues.
  const void* added = nullptr;

  /// Whether only the product is computed.
  bool is_plain() const { return epilogue == GemmEpilogue::kNone && added == nullptr; }
};

struct EmbeddingArgs {
  const std::int32_t *tokens, *position_ids;  ///< [rows]; the latter may be null
  const void *table, *positions;
  void* out;
  DType type;
  std::int64_t rows, length, width, vocabulary;  ///< `length` rows of positions; of all ranks
  std::int64_t first, table_rows;                ///< of the vocabulary: what the table has
};

struct EmbeddingBwdArgs {
  const std::int32_t *tokens, *position_ids;
  const void* dout;
  DType type;
  float *dtable, *dpositions;
  std::int64_t rows, length, width, first, table_rows;
};

/// Row i is head i % heads of position i / heads. T is void or const void.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t position_stride = 0, head_stride = 0;
};

/// A layer norm or, without bias and mean, an RMS norm. Normalises x or, if there is a branch,
/// `sum` = x + branch.
struct NormArgs {
  HeadRows<const void> x, branch;
  HeadRows<void> sum, y;
  const void *gain, *bias;
  DType type;
  float *mean, *rstd;
  std::int64_t positions, heads, width;
  float eps;
};

struct NormBwdArgs {
  HeadRows<const void> dy, x;
  HeadRows<void> dx;
  const void* gain;
  DType type;
  const float *mean, *rstd;
  float *dgain, *dbias;
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
  Heads<void> x;
  DType type;
  const float *cos, *sin;            ///< [positions, width / 2]
  const std::int32_t* position_ids;  ///< [batch, length] or null
  std::int64_t batch, length, positions, heads, width;
  float direction;  ///< 1 rotates, -1 rotates back
};

/// See hgtrain/ops/dropout.h.
struct DropoutArgs {
  float probability;
  std::uint64_t seed;
  const SampleKey* samples;
  std::uint64_t site;
};

/// y = x + dropout(branch); x may be null.
struct DropoutAddArgs {
  const void *x, *branch;
  void* y;
  DType type;
  std::int64_t count, width;
  SampleRows rows;
  DropoutArgs dropout;
};

struct ActivationArgs {
  const void* x;
  void* y;
  DType type;
  std::int64_t count;
  Activation f;
};

struct ActivationBwdArgs {
  const void *x, *dy;
  void* dx;
  DType type;
  std::int64_t count;
  Activation f;
};

struct GatedActivationArgs {
  const void* gate_up;
  void* y;
  DType type;
  std::int64_t rows, width;
  Activation f;
};

struct GatedActivationBwdArgs {
  const void *gate_up, *dy;
  void* d_gate_up;
  DType type;
  std::int64_t rows, width;
  Activation f;
};

/// If `backward`, logits become the gradient of gradient_scale * sum(losses), and zero in the
/// columns beyond the vocabulary. A target outside the vocabulary makes its loss and gradients NaN.
struct CrossEntropyArgs {
  void* logits;
  DType type;
  const std::int32_t* targets;
  float* losses;
  std::int64_t rows, width, vocabulary;
  std::int32_t ignored;
  float gradient_scale;
  bool backward;
};

/// The part of the vocabulary from `first` on: rows have `width` columns, of which `columns` are no
/// padding.
struct CrossEntropyPartArgs {
  void* logits;
  DType type;
  const std::int32_t* targets;
  float* parts;  ///< [rows][3]; for cross_entropy_finish [ranks][rows][3]
  std::int64_t rows, width, columns, first, vocabulary;
  std::int32_t ignored;
};

struct CrossEntropyFinishArgs {
  CrossEntropyPartArgs part;
  std::int64_t ranks;
  float* losses;
  float gradient_scale;
  bool backward;
};

struct AttentionArgs {
  Heads<const void> q, k, v;
  Heads<void> out;
  DType type;
  const std::int32_t* position_ids;  ///< [batch, queries] or null
  float* lse;
  std::int64_t batch, queries, keys, heads, key_heads, width, window;
  float scale;
  DropoutArgs dropout;
  std::int64_t first_head;
  SampleRows tokens;  ///< those that the queries are
};

struct AttentionBwdArgs {
  Heads<const void> dout, q, k, v, out;
  Heads<void> dq, dk, dv;
  DType type;
  const std::int32_t* position_ids;
  const float* lse;
  std::int64_t batch, queries, keys, heads, key_heads, width, window;
  float scale;
  DropoutArgs dropout;
  std::int64_t first_head;
  SampleRows tokens;
};

/// values[count] = value; nothing if `unless` is not null and *unless is not 0.
struct FillArgs {
  float* values;
  std::int64_t count;
  float value;
  const std::int32_t* unless;
};

/// to[i] = from[i], rounded to nearest even; one of the two is fp32, and they do not overlap.
struct CastArgs {
  const void* from;
  void* to;
  DType from_type, to_type;
  std::int64_t count;
};

/// to[i] = from[i] if `first`, else to[i] += from[i]; nothing if `unless` is not null and *unless
/// is not 0. They do not overlap. Moves 8 bytes per element, 12 if it adds.
struct AccumulateArgs {
  const float* from;
  float* to;
  std::int64_t count;
  bool first;
  const std::int32_t* unless;
};

/// out[number of a piece] = the sum of its squares, in fp64, in an order that follows from the
/// piece's size alone. The values are fp32.
struct SquaresOfPiecesArgs {
  FlatValues values;
  const FlatPiece* pieces;
  std::int64_t piece_count;
  double* out;
};

/// *out = the sum of the values, in fp64, in an order that follows from `count` alone.
struct SumArgs {
  const float* values;
  std::int64_t count;
  double* out;
};

// The part of a step around the model's ops, over flat buffers. The host waits for none of it:
//
//   per micro-batch  sum
//   per step         squares_of_pieces, (a reduction over ranks), prepare_update, update_elements
//                    or prepare_lamb, (a reduction over ranks), update_lamb; update_average

/// See hgtrain/ops/update.h.
struct PrepareUpdateArgs {
  Update* update;
  const double* squares;
  std::int64_t square_count;
  const double* losses;
  std::int64_t loss_count;
};

enum class UpdateRule : int { kAdamW, kAdam, kLion, kAdagrad, kSgd, kMomentum, kNesterov };

/// One update of hgtrain/optim/optimizer.h, of elements in pieces that begin at multiples of 8.
/// Adam moves 28 bytes per parameter, and 2 more for the weights; 24 with bf16 parameters, 16 if
/// its state is bf16 too.
struct UpdateElementsArgs {
  UpdateRule rule;
  FlatValues parameters;      ///< fp32 or bf16
  FlatValues gradients;       ///< fp32
  FlatValues state1, state2;  ///< as many as the rule has: fp32, or bf16 if the parameters are
  FlatValues weights;         ///< fp32 parameters, rounded to bf16 or fp16; none: not written
  const FlatPiece* pieces;
  std::int64_t piece_count;
  const Update* update;
};

/// Lamb's update, in two ops: prepare_lamb writes the moments and the norm parts of the pieces,
/// update_lamb the parameters. Reads 28 bytes per parameter and writes 12, and 2 more for the
/// weights.
struct UpdateLambArgs {
  FlatValues parameters, gradients, exp_avg, exp_avg_sq;  ///< fp32
  FlatValues weights;                                     ///< as in UpdateElementsArgs
  const FlatPiece* pieces;
  std::int64_t piece_count;
  double* norm_parts;  ///< [total_pieces][2]: squares of the weights, of their changes
  std::int64_t total_pieces;
  const std::int64_t* first_pieces;  ///< [tensors + 1]: one per tensor, then total_pieces
  std::int64_t tensors;
  float min_coeff, max_coeff;
  bool eps_inside_sqrt;
  const Update* update;
};

/// average[i] = decay_factor average[i] + one_minus_decay values[i] in pieces; nothing if `update`
/// is not null and says `skip`. Moves 12 bytes per element, 10 for bf16 values.
struct UpdateAverageArgs {
  FlatValues average;  ///< fp32
  FlatValues values;   ///< fp32 or bf16
  const FlatPiece* pieces;
  std::int64_t piece_count;
  float decay_factor, one_minus_decay;
  const Update* update;
};

/// See hgtrain/ops/sample.h.
struct SampleArgs {
  const void* logits;
  DType type;
  std::int64_t vocabulary;
  float temperature;
  std::int64_t top_k;
  double top_p, uniform;
  std::int32_t* token;
};

/// Every op of the CUDA module with its arguments. A macro, because the table, the launchers, the
/// entries and the emulation (tests/emulation) each need a line per op.
#define HGT_CUDA_OPS(OP)                           \
  OP(gemm, GemmArgs)                               \
  OP(embedding_fwd, EmbeddingArgs)                 \
  OP(embedding_bwd, EmbeddingBwdArgs)              \
  OP(norm_fwd, NormArgs)                           \
  OP(norm_bwd, NormBwdArgs)                        \
  OP(rope, RopeArgs)                               \
  OP(dropout_add, DropoutAddArgs)                  \
  OP(activation_fwd, ActivationArgs)               \
  OP(activation_bwd, ActivationBwdArgs)            \
  OP(gated_activation_fwd, GatedActivationArgs)    \
  OP(gated_activation_bwd, GatedActivationBwdArgs) \
  OP(cross_entropy, CrossEntropyArgs)              \
  OP(cross_entropy_part, CrossEntropyPartArgs)     \
  OP(cross_entropy_finish, CrossEntropyFinishArgs) \
  OP(attention_fwd, AttentionArgs)                 \
  OP(attention_bwd, AttentionBwdArgs)              \
  OP(fill, FillArgs)                               \
  OP(cast, CastArgs)                               \
  OP(accumulate, AccumulateArgs)                   \
  OP(squares_of_pieces, SquaresOfPiecesArgs)       \
  OP(sum, SumArgs)                                 \
  OP(prepare_update, PrepareUpdateArgs)            \
  OP(update_elements, UpdateElementsArgs)          \
  OP(prepare_lamb, UpdateLambArgs)                 \
  OP(update_lamb, UpdateLambArgs)                  \
  OP(update_average, UpdateAverageArgs)            \
  OP(sample, SampleArgs)

/// How the algorithm of a product is chosen.
enum class ProductTiming : int {
  kTimed,  ///< the fastest; the choice is kept in a file, and other processes' choices are used
  kEnded,  ///< as was chosen before; otherwise as kNone, so that nothing is timed any more
  kNone,   ///< cuBLAS's first-ranked one, and our own kernels for the epilogue
};

struct ProductCounts;  // hgtrain/ops/gemm.h

/// How cuDNN computes attention.
struct CudnnOptions {
  std::int64_t part_bytes = cuda::kAttentionPartBytes;  ///< of its deterministic backward
  bool deterministic = true;  ///< false: its backward adds in any order, which takes less time
};

/// Each function queues its op on the stream and returns. The op's header says what it computes.
struct CudaOpsTable {
  template <class Args>
  using Op = CudaResult (*)(const Args* args, CudaStreamState* stream);

#define HGT_MEMBER(op, Args) Op<Args> op;
  HGT_CUDA_OPS(HGT_MEMBER)
#undef HGT_MEMBER

  /// See hgtrain/ops/gemm.h.
  CudaResult (*set_product_timing)(CudaStreamState* stream, ProductTiming timing);
  /// `take` is called once, with `to` and what ProductChoices has.
  CudaResult (*product_choices)(CudaStreamState* stream, void* to,
                                void (*take)(void* to, const char* valid_for, const char* text,
                                             const ProductCounts& counts));
  CudaResult (*use_product_choices)(CudaStreamState* stream, const char* text, std::int64_t* count);

  /// From now on, cuDNN computes the stream's attention if it supports it. `library` is dlopen's
  /// handle of libcudnn; `version` becomes cuDNN's: 91900 is 9.19.0. Fails if cuDNN cannot be used.
  CudaResult (*use_cudnn)(void* library, const CudnnOptions* options, CudaStreamState* stream,
                          std::size_t* version);
};

/// The CUDA module's ops. Worker code calls an op of hgtrain/ops with a Stream of a CUDA device
/// instead.
const CudaOpsTable* cuda_ops_table();

}  // namespace hgt
