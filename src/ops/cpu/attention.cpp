#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attention_products.h"
#include "attention_tiles.h"
#include "kernels.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

constexpr std::int64_t kFewQueries = 8;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// The forward pass in one thread.
template <class T, class Unit>
class Forward {
  using ProbabilityUnit = typename Products<Unit>::ProbabilityUnit;
  static constexpr std::int64_t kRowUnit = Products<Unit>::kRowUnit;

 public:
  Forward(const Shape& shape, const AttentionOptions& options, RowFetcher& fetcher, float* scratch)
      : s_(shape),
        options_(options),
        products_{shape.width, shape.ld, fetcher},
        probability_products_{shape.width, shape.ld, fetcher} {
    Scratch from{scratch};
    k_ = from.take(s_.head_floats);
    v_ = from.take(s_.head_floats);
    q_ = from.take(kTile * s_.ld);
    out_ = from.take(kTile * s_.ld);
    scores_ = from.take(kTile * kTile);
    factors_ = from.take(kTile);
    highest_ = from.take(kTile);
    sums_ = from.take(kTile * kAttentionVector);
  }
  static std::int64_t floats(const Shape& s) {
    return 2 * (s.head_floats + kTile * s.ld) + kTile * (kTile + 2 + kAttentionVector);
  }

  void run(const Head<T>& q, const Head<T>& k, const Head<T>& v, std::int64_t b, std::int64_t h,
           const Head<T>& out, float* lse) {
    if (s_.queries <= kFewQueries && s_.queries < s_.keys && options_.dropout.probability == 0 &&
        options_.queries.runs == 1)
      return run_rows(q, k, v, b, out, lse);
    read_keys<Unit>(k, s_.ld, out_, nullptr, k_);
    read_keys<ProbabilityUnit>(v, s_.ld, out_, v_, nullptr);
    for_each_block(options_, b, [&](const Block& block) {
      const std::int64_t first = block.first;
      q.read(first, s_.ld, q_);
      Unit::across(q_, kTile, s_.ld, q_);
      std::fill(out_, out_ + kTile * s_.ld, 0.0f);
      std::fill(highest_, highest_ + kTile, kLowest);
      std::fill(sums_, sums_ + kTile * kAttentionVector, 0.0f);
      for_each_tile(block, [&](const Tile& tile) {
        products_.scores(tile, q_, k_, scores_);
        for (std::int64_t r = 0; r < block.rows; ++r) mask_and_rescale(tile, r);
        for (std::int64_t r = 0; r < block.rows; ++r) exponentiate(tile, b, h, r);
        tile.clear_beyond(scores_, kRowUnit);
        const std::int64_t rows = tile.panel_rows(kRowUnit);
        probability_products_.add_to_rows(
            tile, ProbabilityUnit::across(scores_, rows, kTile, scores_), v_, out_);
      });
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const float* const sums = sums_ + r * kAttentionVector;
        const float sum = std::accumulate(sums, sums + kAttentionVector, 0.0f);
        out.write(first + r, 1.0f / sum, out_ + r * s_.ld);
        lse[first + r] = highest_[r] + std::log(sum);
      }
    });
  }

 private:
  /// Few queries after many keys, as in generation: packing all keys would not pay.
  void run_rows(const Head<T>& q, const Head<T>& k, const Head<T>& v, std::int64_t b,
                const Head<T>& out, float* lse) {
    const Block block(0, 0, options_, b);
    q.read(0, s_.ld, q_);
    for (std::int64_t t = 0; t < s_.queries; ++t) {
      const std::int64_t from = block.seen_from(t), to = block.seen_to(t);
      float* const scores = k_;
      float highest = kLowest, sum = 0;
      for (std::int64_t j = from; j < to; ++j) {
        scores[j] = k.dot(j, q_ + t * s_.ld) * options_.scale;
        highest = std::max(highest, scores[j]);
      }
      std::fill(out_, out_ + s_.ld, 0.0f);
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = from; j < to; ++j) {
        scores[j] = exp_f32(scores[j] - highest);
        sum += scores[j];
      }
      for (std::int64_t j = from; j < to; ++j) v.add_to(out_, scores[j], j);
      out.write(t, 1.0f / sum, out_);
      lse[t] = highest + std::log(sum);
    }
  }

  /// Masks row r of the scores, and notes its highest one. Sums that were made with a lower one are
  /// scaled down.
  void mask_and_rescale(const Tile& tile, std::int64_t r) {
    float* const row = scores_ + r * kTile;
    fill_unseen(tile.seen(r), kLowest, row);
    const float scale = options_.scale, before = highest_[r];
    float highest = before;
#pragma omp simd reduction(max : highest)
    for (std::int64_t j = 0; j < kTile; ++j) highest = std::max(highest, row[j] * scale);
    if (highest == before) return;
    highest_[r] = highest;
    const float factor = exp_f32(before - highest);
    multiply(factor, kAttentionVector, sums_ + r * kAttentionVector);
    multiply(factor, s_.ld, out_ + r * s_.ld);
  }
  static void multiply(float factor, std::int64_t count, float* x) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
  }

  /// Row r of the scores becomes exp(score - the highest so far), which is 0 if not seen.
  void exponentiate(const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t r) {
    float* const row = scores_ + r * kTile;
    float* const sums = sums_ + r * kAttentionVector;
    const float scale = options_.scale, highest = highest_[r];
    const Tile::Seen seen = tile.seen(r);
    if (seen.from >= seen.to) return std::fill(row, row + kTile, 0.0f);
    // Sums by column: a sum over the columns of each tile would take as long as the exponentials.
    for (std::int64_t j = 0; j < kTile; j += kAttentionVector)
#pragma omp simd
      for (std::int64_t i = 0; i < kAttentionVector; ++i) {
        const float x = exp_f32(row[j + i] * scale - highest);
        row[j + i] = x;
        sums[i] += x;
      }
    if (options_.dropout.probability == 0) return;
    dropout_factors(options_.dropout, b, dropout_element(tile, options_.first_head + h, r, s_.keys),
                    kTile, factors_);
#pragma omp simd
    for (std::int64_t j = 0; j < kTile; ++j) row[j] *= factors_[j];
  }

  const Shape& s_;
  const AttentionOptions& options_;
  typename Products<Unit>::Registers registers_;
  Products<Unit> products_;
  Products<ProbabilityUnit> probability_products_;
  float *k_, *v_;           ///< for all keys: transposed; as stored
  float *q_, *out_;         ///< for a block
  float* scores_;           ///< for a tile
  float* factors_;          ///< for a row
  float *highest_, *sums_;  ///< by row of a block: of the scores so far, and of exponentials
};

}  // namespace

void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options, const Tensor& out, const Tensor& lse,
                   ThreadPool& pool) {
  const Shape shape(q, k);
  visit_unit(q.dtype(), shape.width, [&]<class T, class Unit>(T, Unit) {
    using Pass = Forward<T, Unit>;
    const auto head = [&](const Tensor& x, std::int64_t item) {
      return head_of<T>(x, shape, item);
    };
    pool.parallel_for(q.size(0) * shape.heads, [&](std::int64_t begin, std::int64_t end,
                                                   int thread) {
      RowFetcher next;
      Pass forward(shape, options, next, pool.scratch(thread, Pass::floats(shape)));
      for (std::int64_t item = begin; item < end; ++item) {
        next.clear();
        if (item + 1 < end)
          for (const Tensor* const x : {&k, &v, &q, &out}) next.add(head(*x, item + 1));
        forward.run(head(q, item), head(k, item), head(v, item), item / shape.heads,
                    item % shape.heads, head(out, item), lse.data<float>() + item * shape.queries);
      }
    });
  });
}

namespace {

/// The backward pass in one thread, by key head, whose query heads add to the same dk and dv.
template <class T, class Unit>
class Backward {
  static constexpr std::int64_t kRowUnit = Products<Unit>::kRowUnit;

 public:
  Backward(const Shape& shape, const AttentionOptions& options, RowFetcher& fetcher, float* scratch)
      : s_(shape), options_(options), products_{shape.width, shape.ld, fetcher} {
    Scratch from{scratch};
    for (float** const of_keys : {&k_transposed_, &k_, &v_, &dk_, &dv_})
      *of_keys = from.take(s_.head_floats);
    for (float** const of_block : {&q_, &dout_, &dq_, &pairs_[0], &pairs_[1]})
      *of_block = from.take(kTile * s_.ld);
    for (float** const of_tile : {&p_, &ds_, &ds_along_}) *of_tile = from.take(kTile * kTile);
    dots_ = from.take(kTile);
    factors_ = from.take(kTile);
  }
  static std::int64_t floats(const Shape& s) { return attention_bwd_floats(s.keys, s.width); }

  void begin(const Head<T>& k, const Head<T>& v) {
    read_keys<Unit>(k, s_.ld, dq_, k_, k_transposed_);
    read_keys<Unit>(v, s_.ld, dq_, nullptr, v_);
    for (float* const sums : {dk_, dv_}) std::fill(sums, sums + s_.head_floats, 0.0f);
  }
  /// Writes dq, adds to dk and dv.
  void run(const Head<T>& q, const Head<T>& out, const Head<T>& dout, const float* lse,
           std::int64_t b, std::int64_t h, const Head<T>& dq) {
    for_each_block(options_, b, [&](const Block& block) {
      const std::int64_t first = block.first;
      read_block(block, q, out, dout);
      for_each_tile(block, [&](const Tile& tile) {
        products_.scores(tile, q_, k_transposed_, p_);
        products_.scores(tile, dout_, v_, ds_);
        for (std::int64_t r = 0; r < block.rows; ++r) row_backward(tile, b, h, r, lse[first + r]);
        for (float* const scores : {p_, ds_}) tile.clear_beyond(scores, kRowUnit);
        add_gradients(tile);
      });
      for (std::int64_t r = 0; r < block.rows; ++r) dq.write(first + r, 1, dq_ + r * s_.ld);
    });
  }
  void finish(const Head<T>& dk, const Head<T>& dv) const {
    for (std::int64_t t = 0; t < s_.keys; ++t) {
      dk.write(t, 1, dk_ + t * s_.ld);
      dv.write(t, 1, dv_ + t * s_.ld);
    }
  }

 private:
  void read_block(const Block& block, const Head<T>& q, const Head<T>& out, const Head<T>& dout) {
    q.read(block.first, s_.ld, q_);
    dout.read(block.first, s_.ld, dout_);
    for (std::int64_t r = 0; r < block.rows; ++r)
      dots_[r] = out.dot(block.first + r, dout_ + r * s_.ld);
    q_along_ = Unit::along(q_, kTile, s_.ld, pairs_[0]);
    dout_along_ = Unit::along(dout_, kTile, s_.ld, pairs_[1]);
    for (float* const rows : {q_, dout_}) Unit::across(rows, kTile, s_.ld, rows);
    std::fill(dq_, dq_ + kTile * s_.ld, 0.0f);
  }

  /// With P the probabilities and dP = dout v^T: dscore = P (dP - sum(P dP)), and sum(P dP) =
  /// sum(dout out). Leaves P after dropout in `p_` (for dv), and the gradient of q k^T in `ds_`.
  void row_backward(const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t r,
                    float log_sum) {
    float* const p = p_ + r * kTile;
    float* const ds = ds_ + r * kTile;
    const float scale = options_.scale, dot = dots_[r];
    if (options_.dropout.probability > 0) {
      dropout_factors(options_.dropout, b,
                      dropout_element(tile, options_.first_head + h, r, s_.keys), kTile, factors_);
#pragma omp simd
      for (std::int64_t j = 0; j < kTile; ++j) {
        const float probability = exp_f32(p[j] * scale - log_sum);
        p[j] = probability * factors_[j];
        ds[j] = probability * (ds[j] * factors_[j] - dot) * scale;
      }
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < kTile; ++j) {
        p[j] = exp_f32(p[j] * scale - log_sum);
        ds[j] = p[j] * (ds[j] - dot) * scale;
      }
    }
    for (float* const row : {p, ds}) fill_unseen(tile.seen(r), 0, row);
  }

  void add_gradients(const Tile& tile) {
    const std::int64_t rows = tile.panel_rows(kRowUnit);
    products_.add_to_keys(tile, Unit::along(p_, rows, kTile, p_), dout_along_, dv_);
    products_.add_to_keys(tile, Unit::along(ds_, rows, kTile, ds_along_), q_along_, dk_);
    products_.add_to_rows(tile, Unit::across(ds_, rows, kTile, ds_), k_, dq_);
  }

  const Shape& s_;
  const AttentionOptions& options_;
  typename Products<Unit>::Registers registers_;
  Products<Unit> products_;
  float *k_transposed_, *k_, *v_, *dk_, *dv_;  ///< for all keys
  float *q_, *dout_, *dq_, *pairs_[2];         ///< for a block
  const float *q_along_, *dout_along_;
  float *p_, *ds_, *ds_along_;  ///< for a tile
  float *dots_, *factors_;      ///< by row of a block; of a row
};

}  // namespace

void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, ThreadPool& pool) {
  const Shape shape(q, k);
  visit_unit(q.dtype(), shape.width, [&]<class T, class Unit>(T, Unit) {
    using Pass = Backward<T, Unit>;
    const auto head = [&](const Tensor& x, std::int64_t item) {
      return head_of<T>(x, shape, item);
    };
    pool.parallel_for(q.size(0) * k.size(2), [&](std::int64_t begin, std::int64_t end, int thread) {
      RowFetcher next;
      Pass backward(shape, options, next, pool.scratch(thread, Pass::floats(shape)));
      for (std::int64_t item = begin * shape.group; item < end * shape.group; ++item) {
        const bool first = item % shape.group == 0, last = (item + 1) % shape.group == 0;
        next.clear();
        if (last)
          for (const Tensor* const x : {&dk, &dv}) next.add(head(*x, item));
        if (item + 1 < end * shape.group) {
          if (last)
            for (const Tensor* const x : {&k, &v}) next.add(head(*x, item + 1));
          for (const Tensor* const x : {&q, &dout, &out, &dq}) next.add(head(*x, item + 1));
        }
        if (first) backward.begin(head(k, item), head(v, item));
        backward.run(head(q, item), head(out, item), head(dout, item),
                     lse.data<float>() + item * shape.queries, item / shape.heads,
                     item % shape.heads, head(dq, item));
        if (last) backward.finish(head(dk, item), head(dv, item));
      }
    });
  });
}

}  // namespace hgt::cpu
