// Compares the ops that take bf16 and fp16 with themselves in fp32 on the same numbers: the only
// difference is the rounding of what is stored.
#include "cpu/products.h"

#include <list>

#include <catch2/catch.hpp>

#include "hgtrain/base/element.h"
#include "hgtrain/base/error.h"
#include "hgtrain/ops/activation.h"
#include "hgtrain/ops/attention.h"
#include "hgtrain/ops/cross_entropy.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/embedding.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/ops/linear.h"
#include "hgtrain/ops/norm.h"
#include "hgtrain/ops/rope.h"

#include "reference.h"

using namespace hgt;

namespace products_test {
namespace {

constexpr SampleKey kSamples{2, 3};

using Shape = std::initializer_list<std::int64_t>;

/// Random tensors, the same for the same calls, of numbers that a 16-bit type can hold; those of
/// the compute type are stored as `stored`.
class Operands {
 public:
  Operands(DType rounded, DType stored) : rounded_(rounded), stored_(stored) {}

  Tensor compute(Shape shape, float scale = 1) { return make(shape, stored_, scale); }
  Tensor f32(Shape shape) { return make(shape, DType::kF32, 1); }
  Tensor ids(Shape shape, std::int32_t below) {
    const Tensor x = make(shape, DType::kI32, 0);
    for (std::int64_t i = 0; i < x.numel(); ++i)
      x.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % below);
    return x;
  }

 private:
  Tensor make(Shape shape, DType dtype, float scale) {
    memory_.emplace_back(1 << 16);
    const Tensor x(memory_.back().data(), shape, dtype);
    const Floats values = random_floats(x.numel(), memory_.size(), scale);
    visit_element(rounded_, [&]<class R>(R) {
      visit_element(dtype, [&]<class T>(T) {
        if (dtype == DType::kI32) return;
        for (std::size_t i = 0; i < values.size(); ++i)
          x.data<T>()[i] = static_cast<float>(R(values[i]));
      });
    });
    return x;
  }
  DType rounded_, stored_;
  std::list<std::vector<double>> memory_;
};

/// The elements of a tensor without gaps between its first and its last.
Floats elements(const Tensor& x) {
  Floats out;
  visit_element(x.dtype(), [&]<class T>(T) {
    const T* const data = x.data<T>();
    out.assign(data, data + x.numel());
  });
  return out;
}

using Op = std::vector<Tensor> (*)(Operands&, Stream);

/// The largest difference of an op's results from those in fp32, in units of their largest.
double error_in(DType dtype, Op op) {
  ThreadPool pool(2);
  Operands narrow(dtype, dtype), wide(dtype, DType::kF32);
  const std::vector<Tensor> actual = op(narrow, Stream(pool)), expected = op(wide, Stream(pool));
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    error = std::max(error, error_of(elements(actual[i]), doubles(elements(expected[i]))));
  return error;
}

void check(Op op, double roundings = 1) {
  CHECK(error_in(DType::kBF16, op) < roundings * std::ldexp(1, -8) + 1e-6);
  CHECK(error_in(DType::kF16, op) < roundings * std::ldexp(1, -11) + 1e-6);
}

}  // namespace

TEST_CASE("products of 16-bit matrices are rounded once") {
  check([](Operands& o, Stream s) {
    const Tensor a = o.compute({37, 150}), b = o.compute({150, 141}), c = o.compute({37, 141});
    const Tensor sums = o.f32({37, 141}), tall = o.compute({141, 37});
    gemm(1, a, b, 0, c, s);
    gemm(1, a, b, 1, sums, s);
    gemm(1, b.transposed(), a.transposed(), 0, tall, s);
    return std::vector{c, sums, tall};
  });
  check([](Operands& o, Stream s) {  // deeper than what is widened at a time
    const Tensor a = o.compute({3, 2051}, 0.1f), b = o.compute({2051, 5}), c = o.compute({3, 5});
    const Tensor sums = o.f32({5, 3});
    gemm(1, a, b, 0, c, s);
    gemm(1, b.transposed(), a.transposed(), 1, sums, s);
    return std::vector{c, sums};
  });
  check([](Operands& o, Stream s) {  // rows and columns of larger matrices
    const Tensor a = o.compute({37, 40}), b = o.compute({150, 40}), c = o.compute({5, 150});
    gemm(1, a.slice(0, 7, 12).slice(1, 3, 36), b.slice(1, 5, 38).transposed(), 0, c, s);
    return std::vector{c};
  });
}

TEST_CASE("unsupported products of 16-bit matrices are refused") {
  ThreadPool pool(1);
  Operands o(DType::kBF16, DType::kBF16);
  const Tensor a = o.compute({4, 4}), c = o.compute({4, 4}), wide = o.f32({4, 4});
  CHECK_THROWS_AS(gemm(2, a, a, 0, c, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, a, a, 1, c, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, a, wide, 0, c, Stream(pool)), Error);
  CHECK_THROWS_AS(gemm(1, wide, wide, 0, c, Stream(pool)), Error);
}

TEST_CASE("a linear layer in 16 bits differs from fp32 by two roundings at most") {
  check(
      [](Operands& o, Stream s) {
        const Tensor x = o.compute({9, 20}), w = o.compute({20, 33}), bias = o.compute({33});
        const Tensor y = o.compute({9, 33}), dx = o.compute({9, 20});
        const Tensor dw = o.f32({20, 33}), dbias = o.f32({33});
        linear_fwd(x, w, bias, y, s);
        const Tensor dy = o.compute({9, 33});
        linear_bwd_input(dy, w, dx, s);
        linear_bwd_weight(x, dy, dw, dbias, s);
        return std::vector{y, dx, dw, dbias};
      },
      2);
}

TEST_CASE("norms in 16 bits differ from fp32 by one rounding at most") {
  check([](Operands& o, Stream s) {
    const Tensor x = o.compute({7, 45}), gain = o.compute({45}), bias = o.compute({45});
    const Tensor y = o.compute({7, 45}), mean = o.f32({7}), rstd = o.f32({7});
    const Tensor dy = o.compute({7, 45}), dx = o.compute({7, 45}), added = o.compute({7, 45});
    const Tensor dgain = o.f32({45}), dbias = o.f32({45});
    norm_fwd(x, gain, bias, 1e-5f, y, mean, rstd, s);
    norm_bwd(dy, x, gain, mean, rstd, false, dx, dgain, dbias, s);
    norm_bwd(dy, x, gain, mean, rstd, true, added, dgain, dbias, s);
    return std::vector{y, mean, rstd, dx, added, dgain, dbias};
  });
  check([](Operands& o, Stream s) {
    const Tensor x = o.compute({7, 2, 45}), gain = o.compute({45}), y = o.compute({7, 2, 45});
    const Tensor rrms = o.f32({7, 2}), dy = o.compute({7, 2, 45}), dx = o.compute({7, 2, 45});
    const Tensor dgain = o.f32({45});
    norm_fwd(x, gain, {}, 1e-6f, y, {}, rrms, s);
    norm_bwd(dy, x, gain, {}, rrms, true, dx, dgain, {}, s);
    return std::vector{y, rrms, dx, dgain};
  });
}

TEST_CASE("activations in 16 bits differ from fp32 by two roundings at most") {
  for (const Op op : {Op([](Operands&o, Stream s) {
                        const Tensor x = o.compute({99}), y = o.compute({99});
                        activation_fwd(Activation::kGeluTanh, x, y, s);
                        activation_bwd(Activation::kGelu, x, y, x, s);
                        return std::vector{y, x};
                      }),
                      Op([](Operands&o, Stream s) {
                        const Tensor x = o.compute({3, 66}), y = o.compute({3, 33});
                        const Tensor dy = o.compute({3, 33}), dx = o.compute({3, 66});
                        gated_activation_fwd(Activation::kSilu, x, y, s);
                        gated_activation_bwd(Activation::kSilu, x, dy, dx, s);
                        return std::vector{y, dx};
                      })})
    check(op, 2);
}

TEST_CASE(
    "rotary embedding, dropout and embedding in 16 bits differ from fp32 by one rounding at most") {
  check([](Operands& o, Stream s) {
    const Tensor x = o.compute({2, 5, 3, 8}), cos = o.f32({5, 4}), sin = o.f32({5, 4});
    rope_fwd(x, cos, sin, s);
    return std::vector{x};
  });
  check([](Operands& o, Stream s) {
    const Tensor x = o.compute({2, 1500}), branch = o.compute({2, 1500});
    const Tensor y = o.compute({2, 1500});
    dropout_add(x, branch, {0.25f, 1, &kSamples, 4}, y, s);
    dropout(x, {0.25f, 1, &kSamples, 5}, x, s);
    dropout_add(branch, branch, {}, branch, s);
    return std::vector{x, y, branch};
  });
  check([](Operands& o, Stream s) {
    const Tensor tokens = o.ids({2, 6}, 5), table = o.compute({5, 9}), places = o.compute({6, 9});
    const Tensor out = o.compute({2, 6, 9}), dout = o.compute({2, 6, 9});
    const Tensor dtable = o.f32({5, 9}), dplaces = o.f32({6, 9});
    embedding_fwd(tokens, table, places, out, s);
    embedding_bwd(tokens, dout, dtable, dplaces, s);
    return std::vector{out, dtable, dplaces};
  });
}

TEST_CASE("cross-entropy in 16 bits has the losses of fp32") {
  check([](Operands& o, Stream s) {
    const Tensor logits = o.compute({6, 50}), targets = o.ids({6}, 50), losses = o.f32({6});
    cross_entropy_fwd_bwd(logits, targets, 0.5f, losses, s);
    return std::vector{logits, losses};
  });
  const auto losses = [](Operands& o, Stream s) {
    const Tensor logits = o.compute({6, 50}), targets = o.ids({6}, 50), out = o.f32({6});
    cross_entropy_fwd(logits, targets, out, s);
    return std::vector{out};
  };
  CHECK(error_in(DType::kBF16, losses) < 1e-6);
}

TEST_CASE("attention in 16 bits differs from fp32 only by what is stored or multiplied") {
  check(
      [](Operands& o, Stream s) {
        const Tensor q = o.compute({2, 71, 4, 13}), k = o.compute({2, 71, 2, 13});
        const Tensor v = o.compute({2, 71, 2, 13}), out = o.compute({2, 71, 4, 13});
        const Tensor lse = o.f32({2, 4, 71}), dout = o.compute({2, 71, 4, 13});
        const Tensor dq = o.compute({2, 71, 4, 13}), dk = o.compute({2, 71, 2, 13});
        const Tensor dv = o.compute({2, 71, 2, 13});
        const AttentionOptions options{
            .scale = 0.3f, .window = 50, .dropout = {0.2f, 1, &kSamples, 4}};
        attention_fwd(q, k, v, options, out, lse, s);
        attention_bwd(dout, q, k, v, out, lse, options, dq, dk, dv, s);
        return std::vector{out, lse, dq, dk, dv};
      },
      4);
}

}  // namespace products_test
