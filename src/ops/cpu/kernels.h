#pragma once

#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/activation.h"
#include "hgtrain/ops/attention.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/ops/vocabulary_part.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The elements of an operand; null if it is absent.
template <class T>
T* data_or_null(const Tensor& x) {
  return x ? x.data<T>() : nullptr;
}

}  // namespace hgt

/// The CPU side of the ops with the same names, whose headers describe them. Operands have been
/// checked.
namespace hgt::cpu {

void clear(const Tensor& x, ThreadPool& pool);
void accumulate(const Tensor& from, const Tensor& to, bool first, ThreadPool& pool);
void sum(const Tensor& x, const Tensor& out);
void prepare_update(const Tensor& losses, const Tensor& squares, Update& update);
void gemm(float alpha, Tensor a, Tensor b, float beta, Tensor c, ThreadPool& pool);
void add_bias(const Tensor& y, const Tensor& bias, ThreadPool& pool);
void add_column_sums(const Tensor& dy, const Tensor& dbias, ThreadPool& pool);
/// The table's first row is that of id `first`.
void embedding_fwd(const Tensor& tokens, const Tensor& table, std::int64_t first,
                   const Tensor& positions, const Tensor& position_ids, const Tensor& out,
                   ThreadPool& pool);
void embedding_bwd(const Tensor& tokens, const Tensor& dout, const Tensor& dtable,
                   std::int64_t first, const Tensor& dpositions, const Tensor& position_ids,
                   ThreadPool& pool);
/// Without a branch there is no sum; without bias and mean it is an RMS norm.
void norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, const Tensor& bias,
              float eps, const Tensor& sum, const Tensor& y, const Tensor& mean, const Tensor& rstd,
              ThreadPool& pool);
void norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
              const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
              const Tensor& dbias, ThreadPool& pool);
void normal_fill(std::uint64_t seed, std::uint64_t stream, float std, std::int64_t first,
                 const Tensor& out, ThreadPool& pool);
/// `direction` 1 rotates, -1 rotates back.
void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& position_ids,
          float direction, ThreadPool& pool);
/// factors[i] = 1 / (1 - probability) if element first + i of the batch's sample `sample` is kept,
/// else 0.
void dropout_factors(const Dropout& options, std::int64_t sample, std::int64_t first,
                     std::int64_t count, float* factors);
/// y = x + dropout(branch), or y = dropout(branch) if there is no x.
void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 ThreadPool& pool);
void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options, const Tensor& out, const Tensor& lse,
                   ThreadPool& pool);
void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, ThreadPool& pool);
void activation_fwd(Activation f, const Tensor& x, const Tensor& y, ThreadPool& pool);
void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    ThreadPool& pool);
void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, ThreadPool& pool);
void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, ThreadPool& pool);
void cross_entropy(const Tensor& logits, std::int64_t vocabulary, const Tensor& targets,
                   const float* gradient_scale, const Tensor& losses, ThreadPool& pool);
void cross_entropy_part(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                        const Tensor& out, ThreadPool& pool);
void cross_entropy_finish(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                          const Tensor& parts, const float* gradient_scale, const Tensor& losses,
                          ThreadPool& pool);
std::int32_t sample(const Tensor& logits, float temperature, std::int64_t top_k, double top_p,
                    double uniform);

}  // namespace hgt::cpu
