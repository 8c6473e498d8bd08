#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_kernels.h"
#include "dropout_factors.h"
#include "element.h"
#include "sgemm.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

constexpr std::int64_t kBlockRows = 64;  ///< query rows whose scores are held at once

/// One head of one sample: `data` is its first row, `ld` the distance of rows.
struct Head {
  float* row(std::int64_t t) const { return data + t * ld; }
  float* data;
  std::int64_t ld;
};

template <class T>
T* head_of(const Tensor& x, std::int64_t b, std::int64_t h) {
  return x.data<T>() + b * x.stride(0) + h * x.stride(2);
}

/// The heads an item works on, in fp32: as they lie where they are fp32, else in scratch memory.
template <class T>
class Heads {
 public:
  Heads(float* scratch, std::int64_t b) : next_(scratch), b_(b) {}

  /// Scratch that `rows` rows of heads take.
  static std::int64_t floats(std::int64_t rows, std::int64_t width) {
    return std::is_same_v<T, float> ? 0 : rows * width;
  }

  Head read(const Tensor& x, std::int64_t h) {
    const Head head = place(x, h);
    if constexpr (!std::is_same_v<T, float>)
      for_each_element(x, h, head, [](T& from, float& to) { to = from; });
    return head;
  }
  /// To be written, and then passed to `store`.
  Head place(const Tensor& x, std::int64_t h) {
    if constexpr (std::is_same_v<T, float>) return {head_of<float>(x, b_, h), x.stride(1)};
    const Head head{next_, x.size(3)};
    next_ += x.size(1) * x.size(3);
    return head;
  }
  void store(const Head& head, const Tensor& x, std::int64_t h) const {
    if constexpr (!std::is_same_v<T, float>)
      for_each_element(x, h, head, [](T& to, float& from) { to = from; });
  }

 private:
  template <class Fn>
  void for_each_element(const Tensor& x, std::int64_t h, const Head& head, const Fn& fn) const {
    T* const rows = head_of<T>(x, b_, h);
    const std::int64_t width = x.size(3);
    for (std::int64_t t = 0; t < x.size(1); ++t) {
      T* const narrow = rows + t * x.stride(1);
      float* const wide = head.row(t);
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) fn(narrow[i], wide[i]);
    }
  }
  float* next_;
  std::int64_t b_;
};

/// Query rows [first, last) and the keys [begin, end) that any of them sees.
struct Block {
  std::int64_t first, last, begin = 0, end;
  std::int64_t shift, window;
  const std::int32_t* positions;  ///< of the sample's queries in their documents, or null

  Block(std::int64_t first_row, std::int64_t queries, std::int64_t keys,
        const AttentionOptions& options, std::int64_t sample)
      : first(first_row),
        last(std::min(first_row + kBlockRows, queries)),
        end(last + keys - queries),
        shift(keys - queries),
        window(options.window),
        positions(options.position_ids
                      ? options.position_ids.data<std::int32_t>() + sample * queries
                      : nullptr) {
    begin = seen_from(first);
  }
  std::int64_t rows() const { return last - first; }
  std::int64_t keys() const { return end - begin; }
  /// Query row t sees keys [seen_from(t), seen_to(t)).
  std::int64_t seen_from(std::int64_t t) const {
    const std::int64_t before = window > 0 ? std::min(t + shift, window - 1) : t + shift;
    return t + shift - (positions ? std::min<std::int64_t>(before, positions[t]) : before);
  }
  std::int64_t seen_to(std::int64_t t) const { return t + shift + 1; }
};

/// scores[rows, keys] = alpha x[rows] y[keys]^T
void scores_of(const Block& block, std::int64_t width, float alpha, const Head& x, const Head& y,
               float* scores) {
  sgemm({false, true, block.rows(), block.keys(), width, alpha, x.row(block.first), x.ld,
         y.row(block.begin), y.ld, 0, scores, block.keys()});
}

/// out[rows] = weights[rows, keys] y[keys]
void weighted_rows(const Block& block, std::int64_t width, const float* weights, const Head& y,
                   const Head& out) {
  sgemm({false, false, block.rows(), width, block.keys(), 1, weights, block.keys(),
         y.row(block.begin), y.ld, 0, out.row(block.first), out.ld});
}

/// out[keys] += weights[rows, keys]^T x[rows]
void add_weighted_keys(const Block& block, std::int64_t width, const float* weights, const Head& x,
                       const Head& out) {
  sgemm({true, false, block.keys(), width, block.rows(), 1, weights, block.keys(),
         x.row(block.first), x.ld, 1, out.row(block.begin), out.ld});
}

/// Index of the first key of query row t among the sample's dropout elements.
std::int64_t dropout_element(const Block& block, std::int64_t h, std::int64_t t,
                             std::int64_t queries) {
  return (h * queries + t) * queries + block.begin;
}

/// A row of scores becomes exp(score - max) where seen and 0 elsewhere; returns max and sum.
struct RowSoftmax {
  float highest, sum;
};
RowSoftmax exponentiate(float* row, std::int64_t from, std::int64_t to, std::int64_t keys) {
  float highest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : highest)
  for (std::int64_t j = from; j < to; ++j) highest = std::max(highest, row[j]);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = from; j < to; ++j) {
    row[j] = exp_f32(row[j] - highest);
    sum += row[j];
  }
  std::fill(row, row + from, 0.0f);
  std::fill(row + to, row + keys, 0.0f);
  return {highest, sum};
}

}  // namespace

namespace {

/// The forward of one query head.
struct HeadForward {
  const AttentionOptions& options;
  std::int64_t b, h, queries, keys, width;
  Head q, k, v, out;
  float* lse;
  float *scores, *factors;  ///< scratch: a block, a row

  void run() const {
    for (std::int64_t first = 0; first < queries; first += kBlockRows) {
      const Block block(first, queries, keys, options, b);
      scores_of(block, width, options.scale, q, k, scores);
      for (std::int64_t t = block.first; t < block.last; ++t) row_softmax(block, t);
      weighted_rows(block, width, scores, v, out);
    }
  }

  void row_softmax(const Block& block, std::int64_t t) const {
    float* const row = scores + (t - block.first) * block.keys();
    const std::int64_t from = block.seen_from(t) - block.begin;
    const std::int64_t to = block.seen_to(t) - block.begin;
    const RowSoftmax s = exponentiate(row, from, to, block.keys());
    const float inverse = 1.0f / s.sum;
    lse[t] = s.highest + std::log(s.sum);
    const bool drop = options.dropout.probability > 0;
    if (drop)
      dropout_factors(options.dropout, b, dropout_element(block, h, t, queries), block.keys(),
                      factors);
#pragma omp simd
    for (std::int64_t j = from; j < to; ++j) row[j] *= drop ? factors[j] * inverse : inverse;
  }
};

}  // namespace

void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options, const Tensor& out, const Tensor& lse,
                   ThreadPool& pool) {
  const std::int64_t queries = q.size(1), heads = q.size(2), width = q.size(3), keys = k.size(1);
  const std::int64_t group = heads / k.size(2);
  visit_element(q.dtype(), [&]<class T>(T) {
    const std::int64_t blocks = (kBlockRows + 1) * keys;
    const std::int64_t copies = Heads<T>::floats(2 * (queries + keys), width);
    pool.parallel_for(q.size(0) * heads, [&](std::int64_t begin, std::int64_t end, int thread) {
      float* const scratch = pool.scratch(thread, blocks + copies);
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t b = item / heads, h = item % heads;
        Heads<T> of(scratch + blocks, b);
        const Head qs = of.read(q, h), ks = of.read(k, h / group), vs = of.read(v, h / group);
        const Head outs = of.place(out, h);
        float* const lses = lse.data<float>() + item * queries;
        HeadForward{options,
                    b,
                    h,
                    queries,
                    keys,
                    width,
                    qs,
                    ks,
                    vs,
                    outs,
                    lses,
                    scratch,
                    scratch + kBlockRows * keys}
            .run();
        of.store(outs, out, h);
      }
    });
  });
}

namespace {

/// The backward of one query head: writes dq, adds to the dk and dv of its key head.
struct HeadBackward {
  const AttentionOptions& options;
  std::int64_t b, h, length, width;
  Head q, k, v, out, dout, dq, dk, dv;
  const float* lse;
  float *scores, *dscores, *factors;  ///< scratch: two blocks, a row

  void run() const {
    for (std::int64_t first = 0; first < length; first += kBlockRows) {
      const Block block(first, length, length, options, b);
      scores_of(block, width, options.scale, q, k, scores);
      scores_of(block, width, 1, dout, v, dscores);
      for (std::int64_t t = block.first; t < block.last; ++t) row_backward(block, t);
      add_weighted_keys(block, width, scores, dout, dv);
      weighted_rows(block, width, dscores, k, dq);
      add_weighted_keys(block, width, dscores, q, dk);
    }
  }

  /// With P the probabilities and dP = dout v^T: dscore = P (dP - sum(P dP)), and sum(P dP) =
  /// sum(dout out). Leaves P in `scores` (dropped, for dv) and the gradient of q k^T in `dscores`.
  void row_backward(const Block& block, std::int64_t t) const {
    float* const p = scores + (t - block.first) * block.keys();
    float* const dp = dscores + (t - block.first) * block.keys();
    const std::int64_t from = block.seen_from(t) - block.begin;
    const std::int64_t to = block.seen_to(t) - block.begin;
    const float* const d = dout.row(t);
    const float* const o = out.row(t);
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < width; ++i) dot += d[i] * o[i];
    const float log_sum = lse[t], scale = options.scale;
    if (options.dropout.probability > 0) {
      dropout_factors(options.dropout, b, dropout_element(block, h, t, length), block.keys(),
                      factors);
#pragma omp simd
      for (std::int64_t j = from; j < to; ++j) {
        const float probability = exp_f32(p[j] - log_sum);
        p[j] = probability * factors[j];
        dp[j] = probability * (dp[j] * factors[j] - dot) * scale;
      }
    } else {
#pragma omp simd
      for (std::int64_t j = from; j < to; ++j) {
        p[j] = exp_f32(p[j] - log_sum);
        dp[j] = p[j] * (dp[j] - dot) * scale;
      }
    }
    for (float* const row : {p, dp}) {
      std::fill(row, row + from, 0.0f);
      std::fill(row + to, row + block.keys(), 0.0f);
    }
  }
};

void clear(const Head& x, std::int64_t rows, std::int64_t width) {
  for (std::int64_t t = 0; t < rows; ++t) std::fill(x.row(t), x.row(t) + width, 0.0f);
}

}  // namespace

void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, ThreadPool& pool) {
  const std::int64_t length = q.size(1), heads = q.size(2), width = q.size(3);
  const std::int64_t key_heads = k.size(2), group = heads / key_heads;
  visit_element(q.dtype(), [&]<class T>(T) {
    const std::int64_t blocks = (2 * kBlockRows + 1) * length;
    const std::int64_t copies =
        Heads<T>::floats(4 * length, width);  // of a key head, and a query's
    // By key head: its query heads add to the same dk and dv, one after the other.
    pool.parallel_for(q.size(0) * key_heads, [&](std::int64_t begin, std::int64_t end, int thread) {
      float* const scratch = pool.scratch(thread, blocks + 2 * copies);
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t b = item / key_heads, kh = item % key_heads;
        Heads<T> of_keys(scratch + blocks, b);
        const Head ks = of_keys.read(k, kh), vs = of_keys.read(v, kh);
        const Head dks = of_keys.place(dk, kh), dvs = of_keys.place(dv, kh);
        clear(dks, length, width);
        clear(dvs, length, width);
        for (std::int64_t h = kh * group; h < (kh + 1) * group; ++h) {
          Heads<T> of(scratch + blocks + copies, b);
          const Head qs = of.read(q, h), outs = of.read(out, h), douts = of.read(dout, h);
          const Head dqs = of.place(dq, h);
          const float* const lses = lse.data<float>() + (b * heads + h) * length;
          HeadBackward{options,
                       b,
                       h,
                       length,
                       width,
                       qs,
                       ks,
                       vs,
                       outs,
                       douts,
                       dqs,
                       dks,
                       dvs,
                       lses,
                       scratch,
                       scratch + kBlockRows * length,
                       scratch + 2 * kBlockRows * length}
              .run();
          of.store(dqs, dq, h);
        }
        of_keys.store(dks, dk, kh);
        of_keys.store(dvs, dv, kh);
      }
    });
  });
}

}  // namespace hgt::cpu
