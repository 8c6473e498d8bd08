#include "hgtrain/ops/attention.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/use_cudnn.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace attention_test {
namespace {

/// Sizes of a case. q, k and v lie side by side in rows of (heads + 2 key_heads) width.
struct Sizes {
  std::int64_t batch, queries, keys, heads, key_heads, width, window;
  float dropout = 0;
  std::int64_t document = 0;  ///< tokens per document, the last one cut; 0: no positions
  SampleRows tokens = {0};    ///< of the queries
  std::int64_t position(std::int64_t i) const {
    return tokens.length > 0 ? tokens.token(i) : i + keys - queries;
  }
  std::int64_t q_numel() const { return batch * queries * heads * width; }
  std::int64_t k_numel() const { return batch * keys * key_heads * width; }
};

Dropout dropout_of(const Sizes& s) {
  static constexpr SampleKey kSamples{6, 7};
  return {s.dropout, 5, &kSamples, 8};
}

/// factors[b][h, i, j]: the dropout factors of the probabilities.
Floats dropout_factors(const Sizes& s) {
  const std::int64_t elements = s.heads * s.keys * s.keys;
  Floats out(static_cast<std::size_t>(s.batch * elements), 1.0f);
  ThreadPool pool(1);
  dropout(tensor(out, {s.batch, elements}), dropout_of(s), tensor(out, {s.batch, elements}),
          Stream(pool));
  return out;
}

/// What a query sees: the key rows' places in k and v, their probabilities and dropout factors.
struct Row {
  std::vector<std::size_t> keys;
  Doubles p, factors;
};

/// Calls fn(at, row) for every query: q [B, T, H, D] holds it at `at`; k is [B, S, K, D].
template <class Fn>
void for_each_query(const Sizes& s, double scale, const Doubles& q, const Doubles& k,
                    const Floats& factors, const Fn& fn) {
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const std::int64_t kh = h / (s.heads / s.key_heads);
        const auto at = static_cast<std::size_t>(((b * s.queries + i) * s.heads + h) * s.width);
        const std::int64_t place = s.position(i);
        const std::int64_t from =
            std::max(s.window > 0 ? std::max<std::int64_t>(0, place - s.window + 1) : 0,
                     s.document > 0 ? place - place % s.document : 0);
        Row row;
        double sum = 0;
        for (std::int64_t j = from; j <= place; ++j) {
          row.keys.push_back(
              static_cast<std::size_t>(((b * s.keys + j) * s.key_heads + kh) * s.width));
          double score = 0;
          for (std::size_t d = 0; d < static_cast<std::size_t>(s.width); ++d)
            score += q[at + d] * k[row.keys.back() + d];
          row.p.push_back(std::exp(score * scale));
          sum += row.p.back();
          row.factors.push_back(s.dropout > 0
                                    ? static_cast<double>(factors[static_cast<std::size_t>(
                                          ((b * s.heads + h) * s.keys + place) * s.keys + j)])
                                    : 1);
        }
        for (double& p : row.p) p /= sum;
        fn(at, row);
      }
}

/// Plain attention over packed q, k and v.
Doubles attention(const Sizes& s, double scale, const Doubles& q, const Doubles& k,
                  const Doubles& v, const Floats& factors) {
  Doubles out(q.size());
  for_each_query(s, scale, q, k, factors, [&](std::size_t at, const Row& row) {
    for (std::size_t j = 0; j < row.p.size(); ++j)
      for (std::size_t d = 0; d < static_cast<std::size_t>(s.width); ++d)
        out[at + d] += row.p[j] * row.factors[j] * v[row.keys[j] + d];
  });
  return out;
}

/// Its gradients, by the chain rule.
struct Gradients {
  Doubles q, k, v;
};
Gradients attention_gradients(const Sizes& s, double scale, const Doubles& q, const Doubles& k,
                              const Doubles& v, const Doubles& dout, const Floats& factors) {
  Gradients d{Doubles(q.size()), Doubles(k.size()), Doubles(v.size())};
  const auto width = static_cast<std::size_t>(s.width);
  for_each_query(s, scale, q, k, factors, [&](std::size_t at, const Row& row) {
    Doubles dp(row.p.size());
    double dot = 0;
    for (std::size_t j = 0; j < dp.size(); ++j) {
      for (std::size_t i = 0; i < width; ++i) dp[j] += dout[at + i] * v[row.keys[j] + i];
      dp[j] *= row.factors[j];
      dot += row.p[j] * dp[j];
    }
    for (std::size_t j = 0; j < dp.size(); ++j) {
      const double ds = row.p[j] * (dp[j] - dot) * scale;
      for (std::size_t i = 0; i < width; ++i) {
        d.q[at + i] += ds * k[row.keys[j] + i];
        d.k[row.keys[j] + i] += ds * q[at + i];
        d.v[row.keys[j] + i] += row.p[j] * row.factors[j] * dout[at + i];
      }
    }
  });
  return d;
}

struct Case {
  explicit Case(const Sizes& sizes) : s(sizes) {
    for (std::int64_t n = 0; s.document > 0 && n < s.batch * s.queries; ++n)
      positions.push_back(static_cast<std::int32_t>(s.position(n % s.queries) % s.document));
  }
  Sizes s;
  float scale = 0.37f;
  std::vector<std::int32_t> positions;
  Floats q = random_floats(s.q_numel(), 1), k = random_floats(s.k_numel(), 2);
  Floats v = random_floats(s.k_numel(), 3), dout = random_floats(s.q_numel(), 4);
  Floats out = Floats(q.size()),
         lse = Floats(static_cast<std::size_t>(s.batch * s.heads * s.queries));
  Floats dq = Floats(q.size(), NAN), dk = Floats(k.size(), NAN), dv = Floats(k.size(), NAN);

  Tensor queries(Floats& x) const { return tensor(x, {s.batch, s.queries, s.heads, s.width}); }
  Tensor keys(Floats& x) const { return tensor(x, {s.batch, s.keys, s.key_heads, s.width}); }
  Tensor sums() { return tensor(lse, {s.batch, s.heads, s.queries}); }
  AttentionOptions options() {
    const Tensor ids(positions.data(), {s.batch, s.queries}, DType::kI32);
    return {scale, s.window, dropout_of(s), positions.empty() ? Tensor() : ids, 0, s.tokens};
  }

  void forward(int threads) {
    ThreadPool pool(threads);
    attention_fwd(queries(q), keys(k), keys(v), options(), queries(out), sums(), Stream(pool));
  }
  void backward(int threads) {
    ThreadPool pool(threads);
    attention_bwd(queries(dout), queries(q), keys(k), keys(v), queries(out), sums(), options(),
                  queries(dq), keys(dk), keys(dv), Stream(pool));
  }
  Doubles reference(const Doubles& q_, const Doubles& k_, const Doubles& v_) const {
    return attention(s, static_cast<double>(scale), q_, k_, v_,
                     s.dropout > 0 ? dropout_factors(s) : Floats());
  }
};

/// x as T, which x then holds exactly.
template <class T>
std::vector<T> rounded(Floats& x) {
  std::vector<T> out(x.begin(), x.end());
  x.assign(out.begin(), out.end());
  return out;
}

/// Calls fn(T{}, dtype, tolerance) for the types of 16 bits.
template <class Fn>
void visit_each_half(const Fn& fn) {
  fn(BFloat16{}, DType::kBF16, 0x1p-7);
  fn(Half{}, DType::kF16, 0x1p-10);
}

}  // namespace

/// Of a rank with two chunks of the sequence, or with a part in one piece.
const std::initializer_list<Sizes> kParts = {
    {2, 4, 8, 4, 2, 5, 0, 0, 0, {4, 2, {0, 6}}},
    {1, 4, 12, 2, 2, 6, 0, 0.3f, 5, {4, 2, {2, 8}}},
    {2, 140, 280, 2, 1, 7, 0, 0, 0, {140, 2, {70, 140}}},
    {1, 140, 420, 4, 2, 9, 75, 0.2f, 0, {140, 2, {0, 350}}},
    {1, 66, 198, 2, 1, 5, 0, 0.3f, 40, {66, 2, {33, 132}}},
    {1, 130, 300, 2, 2, 20, 0, 0, 90, {130, 1, {100, 0}}},
};

TEST_CASE("attention of some of the positions agrees with plain loops and the chain rule") {
  for (const Sizes& s : kParts) {
    Case c(s);
    c.forward(2);
    c.backward(2);
    INFO(s.queries << " of " << s.keys << ", window " << s.window << ", dropout " << s.dropout);
    CHECK(error_of(c.out, c.reference(doubles(c.q), doubles(c.k), doubles(c.v))) < 2e-6);
    const Gradients d =
        attention_gradients(s, static_cast<double>(c.scale), doubles(c.q), doubles(c.k),
                            doubles(c.v), doubles(c.dout), dropout_factors(s));
    CHECK(error_of(c.dq, d.q) < 4e-6);
    CHECK(error_of(c.dk, d.k) < 4e-6);
    CHECK(error_of(c.dv, d.v) < 4e-6);
  }
}

TEST_CASE(
    "attention forward: full, windowed, grouped, by document, with a cache, over several blocks") {
  for (const Sizes& s :
       {Sizes{2, 5, 5, 3, 3, 4, 0}, Sizes{1, 9, 9, 4, 2, 5, 3}, Sizes{2, 1, 8, 4, 1, 3, 0},
        Sizes{1, 3, 9, 2, 2, 6, 4}, Sizes{1, 150, 150, 2, 1, 7, 0}, Sizes{1, 150, 150, 2, 2, 7, 40},
        Sizes{1, 70, 190, 2, 1, 8, 33}, Sizes{2, 70, 70, 2, 1, 8, 0, 0.3f},
        Sizes{2, 150, 150, 2, 1, 7, 0, 0, 37}, Sizes{1, 70, 70, 2, 2, 4, 9, 0.3f, 25},
        Sizes{1, 193, 193, 2, 1, 33, 65, 0.2f, 90}, Sizes{1, 5, 300, 2, 1, 80, 130}}) {
    Case c(s);
    c.forward(2);
    INFO(s.batch << " x " << s.queries << " of " << s.keys << ", window " << s.window);
    CHECK(error_of(c.out, c.reference(doubles(c.q), doubles(c.k), doubles(c.v))) < 2e-6);
  }
}

TEST_CASE("attention backward agrees with finite differences") {
  for (const Sizes& s :
       {Sizes{2, 6, 6, 4, 2, 3, 0}, Sizes{1, 7, 7, 2, 2, 4, 3}, Sizes{1, 66, 66, 1, 1, 2, 0},
        Sizes{2, 6, 6, 2, 1, 4, 0, 0.4f}, Sizes{1, 66, 66, 2, 1, 2, 0, 0, 20},
        Sizes{2, 7, 7, 2, 2, 4, 2, 0.2f, 3}, Sizes{1, 4, 9, 2, 1, 3, 0, 0.2f, 4, {4, 2, {1, 7}}}}) {
    Case c(s);
    c.forward(2);
    c.backward(2);
    const Doubles q = doubles(c.q), k = doubles(c.k), v = doubles(c.v);
    INFO(s.queries << ", window " << s.window << ", dropout " << s.dropout);
    CHECK(error_of(c.dq, numeric_gradient([&](const Doubles& x) { return c.reference(x, k, v); }, q,
                                          c.dout)) < 3e-6);
    CHECK(error_of(c.dk, numeric_gradient([&](const Doubles& x) { return c.reference(q, x, v); }, k,
                                          c.dout)) < 3e-6);
    CHECK(error_of(c.dv, numeric_gradient([&](const Doubles& x) { return c.reference(q, k, x); }, v,
                                          c.dout)) < 3e-6);
  }
}

TEST_CASE("attention backward over several tiles agrees with the chain rule") {
  for (const Sizes& s :
       {Sizes{1, 7, 7, 2, 1, 4, 3}, Sizes{1, 150, 150, 4, 2, 17, 0},
        Sizes{2, 193, 193, 2, 2, 33, 0}, Sizes{1, 150, 150, 2, 1, 48, 70},
        Sizes{1, 200, 200, 2, 1, 5, 3}, Sizes{1, 130, 130, 4, 1, 20, 0, 0.3f},
        Sizes{1, 150, 150, 2, 2, 64, 0, 0, 37}, Sizes{1, 193, 193, 2, 1, 80, 65, 0.2f, 90}}) {
    Case c(s);
    c.forward(2);
    c.backward(2);
    const Gradients d =
        attention_gradients(s, static_cast<double>(c.scale), doubles(c.q), doubles(c.k),
                            doubles(c.v), doubles(c.dout), dropout_factors(s));
    INFO(s.queries << " of " << s.width << ", window " << s.window << ", dropout " << s.dropout);
    CHECK(error_of(c.dq, d.q) < 4e-6);
    CHECK(error_of(c.dk, d.k) < 4e-6);
    CHECK(error_of(c.dv, d.v) < 4e-6);
  }
}

TEST_CASE("attention of 16-bit heads agrees with the chain rule, for widths with and without AMX") {
  // Numbers are rounded on their way: probabilities and their gradients, too, if they are bf16.
  visit_each_half([]<class T>(T, DType dtype, double tolerance) {
    for (const Sizes& s :
         {Sizes{1, 9, 9, 2, 1, 32, 0}, Sizes{2, 64, 64, 2, 2, 64, 0},
          Sizes{1, 200, 200, 4, 2, 64, 0}, Sizes{1, 150, 150, 2, 1, 96, 70},
          Sizes{1, 150, 150, 2, 2, 64, 0, 0.3f, 37}, Sizes{1, 193, 193, 2, 1, 80, 65, 0.2f, 90},
          Sizes{1, 70, 190, 2, 1, 64, 33},
          Sizes{1, 140, 420, 4, 2, 32, 75, 0, 0, {140, 2, {0, 350}}},
          Sizes{1, 3, 90, 2, 1, 64, 0}}) {
      INFO(name_of(dtype) << ": " << s.queries << " of " << s.keys << " x " << s.width);
      Case c(s);
      c.scale = 0.12f;
      using Values = std::vector<T>;
      Values q = rounded<T>(c.q), k = rounded<T>(c.k), v = rounded<T>(c.v),
             dout = rounded<T>(c.dout);
      Values out(q.size()), dq(q.size()), dk(k.size()), dv(k.size());
      const auto queries = [&](Values& x) {
        return Tensor(x.data(), {s.batch, s.queries, s.heads, s.width}, dtype);
      };
      const auto keys = [&](Values& x) {
        return Tensor(x.data(), {s.batch, s.keys, s.key_heads, s.width}, dtype);
      };
      ThreadPool pool(2);
      attention_fwd(queries(q), keys(k), keys(v), c.options(), queries(out), c.sums(),
                    Stream(pool));
      attention_bwd(queries(dout), queries(q), keys(k), keys(v), queries(out), c.sums(),
                    c.options(), queries(dq), keys(dk), keys(dv), Stream(pool));
      CHECK(error_of(Floats(out.begin(), out.end()),
                     c.reference(doubles(c.q), doubles(c.k), doubles(c.v))) < tolerance);
      const Gradients d =
          attention_gradients(s, static_cast<double>(c.scale), doubles(c.q), doubles(c.k),
                              doubles(c.v), doubles(c.dout), dropout_factors(s));
      CHECK(error_of(Floats(dq.begin(), dq.end()), d.q) < tolerance);
      CHECK(error_of(Floats(dk.begin(), dk.end()), d.k) < tolerance);
      CHECK(error_of(Floats(dv.begin(), dv.end()), d.v) < tolerance);
    }
  });
}

TEST_CASE("attention of some of the heads has the bits of all, dropout included") {
  const Sizes all{2, 90, 90, 4, 2, 8, 0, 0.3f};
  Sizes half = all;
  half.heads = 2, half.key_heads = 1;
  Case whole(all);
  whole.forward(2);
  whole.backward(2);
  for (const std::int64_t first : {0, 2}) {
    ThreadPool pool(2);
    Case part(half);
    const auto queries = [&](Floats& x) { return whole.queries(x).slice(2, first, first + 2); };
    const auto keys = [&](Floats& x) { return whole.keys(x).slice(2, first / 2, first / 2 + 1); };
    AttentionOptions options = whole.options();
    options.first_head = first;
    attention_fwd(queries(whole.q), keys(whole.k), keys(whole.v), options, part.queries(part.out),
                  part.sums(), pool);
    attention_bwd(queries(whole.dout), queries(whole.q), keys(whole.k), keys(whole.v),
                  part.queries(part.out), part.sums(), options, part.queries(part.dq),
                  part.keys(part.dk), part.keys(part.dv), pool);
    const auto same = [](const Tensor& a, const Tensor& b) {
      for (std::int64_t n = 0; n < a.size(0); ++n)
        for (std::int64_t t = 0; t < a.size(1); ++t)
          for (std::int64_t h = 0; h < a.size(2); ++h)
            for (std::int64_t i = 0; i < a.size(3); ++i) {
              const auto at = [&](const Tensor& x) {
                return x.data<float>()[n * x.stride(0) + t * x.stride(1) + h * x.stride(2) + i];
              };
              if (at(a) != at(b)) return false;
            }
      return true;
    };
    CHECK(same(part.queries(part.out), queries(whole.out)));
    CHECK(same(part.queries(part.dq), queries(whole.dq)));
    CHECK(same(part.keys(part.dk), keys(whole.dk)));
    CHECK(same(part.keys(part.dv), keys(whole.dv)));
  }
}

TEST_CASE("attention has the same bits for any number of threads") {
  Case one(Sizes{2, 90, 90, 4, 2, 8, 0, 0.1f}), three(one);
  one.forward(1);
  one.backward(1);
  three.forward(3);
  three.backward(3);
  CHECK(one.out == three.out);
  CHECK(one.dq == three.dq);
  CHECK(one.dk == three.dk);
  CHECK(one.dv == three.dv);
}

TEST_CASE("attention survives scores that overflow exp") {
  Case c(Sizes{1, 4, 4, 1, 1, 2, 0});
  for (float& x : c.q) x *= 1000;
  c.forward(1);
  for (const float x : c.out) CHECK(std::isfinite(x));
}

TEST_CASE("attention shows a NaN in a key to all queries that see it, and to no other") {
  constexpr std::int64_t kWindow = 3, kBad = 63;  // the last key of a tile
  Case c(Sizes{1, 80, 80, 1, 1, 2, kWindow});
  c.k[2 * kBad] = NAN;
  c.forward(1);
  for (std::int64_t i = 0; i < 80; ++i) {
    INFO("query " << i);
    CHECK(std::isnan(c.out[static_cast<std::size_t>(2 * i)]) == (i >= kBad && i < kBad + kWindow));
  }
}

TEST_CASE("attention refuses head counts that do not divide, too few keys, queries beyond them") {
  const auto refused = [](const Sizes& s) {
    Case c(s);
    CHECK_THROWS_AS(c.forward(1), Error);
  };
  refused({1, 3, 3, 3, 2, 4, 0});
  refused({1, 3, 2, 2, 2, 4, 0});
  refused({1, 2, 4, 2, 2, 4, 0, 0, 0, {2, 2, {0, 4}}});
  refused({1, 3, 4, 2, 2, 4, 0, 0, 0, {3, 2, {0, 2}}});
  refused({1, 2, 4, 2, 2, 4, 0, 0, 0, {1, 1, {0, 0}}});
  refused({1, 3, 3, 2, 2, 4, -1});
  Case c(Sizes{1, 3, 3, 2, 2, 4, 0});
  c.scale = 0;
  CHECK_THROWS_AS(c.forward(1), Error);
}

TEST_CASE("CUDA: attention equals the CPU's", "[attention]") {
  struct Case {
    std::int64_t queries, keys, heads, key_heads, width, window;
    float dropout;
    std::int64_t document = 0;
  };
  for (const DType type : kTypes)
    for (const Case& c :
         {Case{1, 1, 1, 1, 1, 0, 0}, Case{37, 37, 4, 2, 20, 0, 0}, Case{37, 37, 4, 2, 20, 5, 0},
          Case{130, 130, 2, 1, 64, 0, 0.2f}, Case{3, 150, 4, 4, 130, 7, 0},
          Case{70, 70, 2, 2, 256, 32, 0.1f}, Case{200, 200, 1, 1, 16, 0, 0, 90},
          Case{200, 200, 1, 1, 16, 40, 0, 90}}) {
      const Shape q = {2, c.queries, c.heads, c.width}, k = {2, c.keys, c.key_heads, c.width};
      const Shape lse = {2, c.heads, c.queries};
      const std::int64_t document = c.document > 0 ? c.document : c.queries;
      compare(
          {normal(q, 1, 1, type), normal(k, 2, 1, type), normal(k, 3, 1, type),
           normal(q, 4, 1, type), normal(lse, 5), normal(q, 6, 1, type), normal(q, 7, 1, type),
           normal(k, 8, 1, type), normal(k, 9, 1, type), document_positions(2, c.queries, document),
           sample_key(4, 5)},
          [=](const std::vector<Tensor>& x, Stream stream) {
            const AttentionOptions options{0.2f,
                                           c.window,
                                           {c.dropout, 3, key_in(x[10]), 6},
                                           c.document > 0 ? x[9] : Tensor(),
                                           3};
            attention_fwd(x[0], x[1], x[2], options, x[3], x[4], stream);
            if (c.queries == c.keys)
              attention_bwd(x[5], x[0], x[1], x[2], x[3], x[4], options, x[6], x[7], x[8], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("CUDA: attention of some of the positions equals the CPU's", "[attention]") {
  for (const DType type : kTypes)
    for (const Sizes& s : kParts) {
      const Shape q = {s.batch, s.queries, s.heads, s.width};
      const Shape k = {s.batch, s.keys, s.key_heads, s.width};
      std::vector<std::int32_t> ids;
      for (std::int64_t n = 0; n < s.batch * s.queries; ++n)
        ids.push_back(static_cast<std::int32_t>(s.position(n % s.queries) %
                                                std::max<std::int64_t>(s.document, 1)));
      compare(
          {normal(q, 1, 1, type), normal(k, 2, 1, type), normal(k, 3, 1, type),
           normal(q, 4, 1, type), normal({s.batch, s.heads, s.queries}, 5), normal(q, 6, 1, type),
           normal(q, 7, 1, type), normal(k, 8, 1, type), normal(k, 9, 1, type),
           stored<std::int32_t>(ids, {s.batch, s.queries}, DType::kI32), sample_key(4, 5)},
          [=](const std::vector<Tensor>& x, Stream stream) {
            const AttentionOptions options{
                0.2f, s.window, {s.dropout, 3, key_in(x[10]), 6}, s.document > 0 ? x[9] : Tensor(),
                3,    s.tokens};
            attention_fwd(x[0], x[1], x[2], options, x[3], x[4], stream);
            attention_bwd(x[5], x[0], x[1], x[2], x[3], x[4], options, x[6], x[7], x[8], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("CUDA: attention over cuDNN, with heads next to each other in rows, equals the CPU's",
          "[attention]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  WARN(use_cudnn(queue));
  struct Case {
    std::int64_t length, heads, key_heads, width, window;
    float dropout = 0;  ///< cuDNN does not get this or documents
    std::int64_t document = 0;
  };
  for (const DType type : {DType::kBF16, DType::kF16})
    for (const Case& c : {Case{64, 4, 4, 64, 0}, Case{200, 4, 2, 64, 0}, Case{130, 2, 1, 128, 0},
                          Case{128, 4, 2, 128, 32}, Case{37, 2, 2, 24, 5}, Case{1, 2, 2, 64, 0},
                          Case{64, 2, 2, 64, 0, 0.2f}, Case{100, 2, 1, 64, 0, 0, 30}}) {
      const Shape rows = {2, c.length, c.heads + 2 * c.key_heads, c.width};
      const Shape out = {2, c.length, c.heads, c.width}, lse = {2, c.heads, c.length};
      compare(
          queue,
          {normal(rows, 1, 1, type), normal(out, 2, 1, type), normal(lse, 3),
           normal(out, 4, 1, type), normal(rows, 5, 1, type),
           document_positions(2, c.length, c.document > 0 ? c.document : c.length),
           sample_key(4, 5)},
          [=](const std::vector<Tensor>& x, Stream stream) {
            const std::int64_t k = c.heads, v = k + c.key_heads, end = v + c.key_heads;
            const auto part = [&](int of, std::int64_t from, std::int64_t to) {
              return x[static_cast<std::size_t>(of)].slice(2, from, to);
            };
            const AttentionOptions options{
                0.2f, c.window, {c.dropout, 3, key_in(x[6]), 6}, c.document > 0 ? x[5] : Tensor()};
            attention_fwd(part(0, 0, k), part(0, k, v), part(0, v, end), options, x[1], x[2],
                          stream);
            attention_bwd(x[3], part(0, 0, k), part(0, k, v), part(0, v, end), x[1], x[2], options,
                          part(4, 0, k), part(4, k, v), part(4, v, end), stream);
          },
          2 * tolerance_of(type, 0));  // cuDNN rounds the probabilities
    }
}

}  // namespace attention_test
