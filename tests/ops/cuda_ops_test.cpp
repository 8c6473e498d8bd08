#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/ops/activation.h"
#include "hgtrain/ops/attention.h"
#include "hgtrain/ops/cross_entropy.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/embedding.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/ops/layer_norm.h"
#include "hgtrain/ops/linear.h"
#include "hgtrain/ops/rms_norm.h"
#include "hgtrain/ops/rope.h"
#include "hgtrain/ops/use_cudnn.h"

#include "on_device.h"

// Compares each op on a CUDA device, a real or an emulated one (tests/emulation), with the same op
// on the CPU, in odd sizes. Without a device nothing is compared. A test's tag is the kernels'
// file: src/ops/cuda/<tag>.cu.

using namespace hgt;
using namespace on_device;

namespace {

/// Numbers in [0, below), some of them `sometimes`.
Operand integers(const Shape& shape, std::int32_t below, std::int32_t sometimes) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count_of(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 7 == 3 ? sometimes : static_cast<std::int32_t>(i * i + 5) % below;
  return stored<std::int32_t>(values, shape, DType::kI32);
}

/// Positions of tokens in documents of `document` tokens; the last one of a row is cut off.
Operand document_positions(std::int64_t batch, std::int64_t length, std::int64_t document) {
  std::vector<std::int32_t> values;
  for (std::int64_t n = 0; n < batch * length; ++n)
    values.push_back(static_cast<std::int32_t>(n % length % document));
  return stored<std::int32_t>(values, {batch, length}, DType::kI32);
}

/// A SampleKey, for `key_in`.
Operand sample_key(int step, int first_sample) {
  return stored<std::int32_t>(std::vector{step, 0, first_sample, 0}, {4}, DType::kI32);
}
const SampleKey* key_in(const Tensor& x) {
  return reinterpret_cast<const SampleKey*>(x.data<std::int32_t>());
}

/// Half a unit in the last place, and the most by which sums of values rounded this way may differ.
double tolerance_of(DType dtype, double of_fp32) {
  return dtype == DType::kBF16 ? 1.6e-2 : dtype == DType::kF16 ? 2e-3 : of_fp32;
}

/// Runs the op on both devices with the same operands; all results must agree, and a second run on
/// the device must give the same bits.
void compare(const CudaQueue& queue, const std::vector<Operand>& operands, const Op& op,
             double tolerance) {
  const std::vector<Operand> results = run_on_device(queue, operands, op);
  const std::vector<Operand> again = run_on_device(queue, operands, op);
  ThreadPool pool(1);
  std::vector<Operand> expected = operands;
  std::vector<Tensor> tensors;
  for (Operand& operand : expected) tensors.push_back(operand.on_cpu());
  op(tensors, Stream(pool));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("operand " << i << " in " << name_of(expected[i].dtype));
    CHECK(results[i].bytes == again[i].bytes);
    if (expected[i].dtype == DType::kI32) continue;
    CHECK(error_of(results[i].floats(), doubles(expected[i].floats())) < tolerance);
  }
}
void compare(const std::vector<Operand>& operands, const Op& op, double tolerance = 2e-5) {
  if (module_with_device() == nullptr) return;
  compare(CudaQueue(Device::cuda(0), *module_with_device()), operands, op, tolerance);
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace

TEST_CASE("CUDA: matrix products in every orientation", "[gemm]") {
  for (int flips = 0; flips < 8; ++flips) {
    const bool a = flips & 1, b = flips & 2, c = flips & 4;
    const auto flipped = [](const Shape& shape, bool flip) {
      return flip ? Shape{shape[1], shape[0]} : shape;
    };
    const Shape mk = flipped({33, 70}, a), kn = flipped({70, 19}, b), mn = flipped({33, 19}, c);
    const auto product = [=](float alpha, float beta) {
      return [=](const std::vector<Tensor>& x, Stream stream) {
        gemm(alpha, a ? x[0].transposed() : x[0], b ? x[1].transposed() : x[1], beta,
             c ? x[2].transposed() : x[2], stream);
      };
    };
    compare({normal(mk, 1), normal(kn, 2), normal(mn, 3)}, product(0.5f, 2));
    for (const DType type : {DType::kBF16, DType::kF16}) {
      const Operand x = normal(mk, 1, 1, type), y = normal(kn, 2, 1, type);
      compare({x, y, normal(mn, 3, 1, type)}, product(1, 0), tolerance_of(type, 0));
      compare({x, y, normal(mn, 3)}, product(1, 0));  // products of 16-bit numbers are exact
      compare({x, y, normal(mn, 3)}, product(1, 1));
    }
  }
}

// Whether the emulated device computes an epilogue with the product or apart follows from whether
// the number of the sums' terms is odd (tests/emulation/cublas.cpp).
TEST_CASE("CUDA: a linear layer", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {21, 22})
      for (const std::int64_t inputs : {34, 35})
        for (const std::int64_t outputs : {55, 64})
          compare(
              {normal({rows, inputs}, 1, 1, type), normal({inputs, outputs}, 2, 1, type),
               normal({outputs}, 3, 1, type), normal({rows, outputs}, 4, 1, type),
               normal({rows, outputs}, 5, 1, type), normal({rows, inputs}, 6, 1, type),
               normal({inputs, outputs}, 7), normal({outputs}, 8)},
              [](const std::vector<Tensor>& x, Stream stream) {
                linear_fwd(x[0], x[1], x[2], x[3], stream);
                linear_bwd_input(x[4], x[1], x[5], stream);
                linear_bwd_weight(x[0], x[4], x[6], x[7], stream);
              },
              tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: a linear layer with a transposed weight", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {20, 21})
      compare(
          {normal({rows, 34}, 1, 1, type), normal({56, 34}, 2, 1, type), normal({56}, 3, 1, type),
           normal({rows, 56}, 4, 1, type), normal({56, 34}, 5), normal({56}, 6)},
          [](const std::vector<Tensor>& x, Stream stream) {
            linear_fwd(x[0], x[1].transposed(), x[2], x[3], stream);
            linear_bwd_weight(x[0], x[3], x[4].transposed(), x[5], stream);
          },
          tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: a linear layer with an activation", "[activation]") {
  for (const DType type : kTypes)
    for (const auto f : {Activation::kGeluTanh, Activation::kGelu})
      for (const std::int64_t inputs : {34, 35})
        for (const std::int64_t outputs : {55, 64})
          for (const bool bias : {false, true})
            compare(
                {normal({22, inputs}, 1, 1, type), normal({inputs, outputs}, 2, 0.2f, type),
                 normal({outputs}, 3, 1, type), normal({22, outputs}, 4, 1, type),
                 normal({22, outputs}, 5, 1, type), normal({22, inputs}, 6, 1, type),
                 normal({outputs, inputs}, 7, 0.2f, type), normal({22, outputs}, 8, 1, type)},
                [=](const std::vector<Tensor>& x, Stream stream) {
                  linear_activation_fwd(f, x[0], x[1], bias ? x[2] : Tensor(), x[3], x[4], stream);
                  linear_activation_bwd_input(f, x[5], x[6], x[3], x[7], stream);
                },
                tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: the gradient of a bias over many rows", "[linear]") {
  for (const DType type : kTypes)
    for (const std::int64_t rows : {1500, 1501})
      for (const std::int64_t outputs : {3, 40})
        compare(
            {normal({rows, 2}, 1, 1, type), normal({rows, outputs}, 2, 1, type),
             normal({2, outputs}, 3), normal({outputs}, 4)},
            [](const std::vector<Tensor>& x, Stream stream) {
              linear_bwd_weight(x[0], x[1], x[2], x[3], stream);
            },
            1e-4);
}

TEST_CASE("CUDA: layer norm", "[layer_norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {7, 33, 256, 1025, 4100})
      for (const bool accumulate : {false, true}) {
        if (type == DType::kF32 && width > 4096) continue;  // wider than the kernels support
        const std::int64_t count = width > 33 ? 3 : 70;
        const Shape rows = {count, width}, row = {width}, column = {count};
        compare(
            {normal(rows, 1, 3, type), normal(row, 2, 1, type), normal(row, 3, 1, type),
             normal(rows, 4, 1, type), normal(column, 5), normal(column, 6),
             normal(rows, 7, 1, type), normal(row, 8), normal(row, 9), normal(rows, 10, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              layer_norm_fwd(x[0], x[1], x[2], 1e-5f, x[3], x[4], x[5], stream);
              const Tensor& dx = accumulate ? x[6] : x[9];  // in place if it is not added to
              layer_norm_bwd(x[9], x[0], x[1], x[4], x[5], accumulate, dx, x[7], x[8], stream);
            },
            tolerance_of(type, 2e-4));
      }
}

namespace {

/// The norm of x[0] + x[1], in one pass into the first of the results and in two into the second:
/// sums x[4], x[5], norms x[6], x[7], means x[8], x[9], scales x[10], x[11].
void add_and_norm(bool layer_norm, const std::vector<Tensor>& x, Stream stream) {
  const auto head = [](const Tensor& t) { return t.split(1, 1); };
  const auto scale = [&](const Tensor& t) { return t.split(0, t.size(0)); };
  dropout_add(x[0], x[1], {}, x[5], stream);
  if (layer_norm) {
    add_layer_norm_fwd(x[0], x[1], x[2], x[3], 1e-5f, x[4], x[6], x[8], x[10], stream);
    layer_norm_fwd(x[5], x[2], x[3], 1e-5f, x[7], x[9], x[11], stream);
  } else {
    add_rms_norm_fwd(head(x[0]), head(x[1]), x[2], 1e-5f, head(x[4]), head(x[6]), scale(x[10]),
                     stream);
    rms_norm_fwd(head(x[5]), x[2], 1e-5f, head(x[7]), scale(x[11]), stream);
  }
}

}  // namespace

TEST_CASE("CUDA: a norm that adds in one pass equals adding first", "[layer_norm][rms_norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {7, 64, 1025, 2060})
      for (const bool layer_norm : {true, false}) {
        const Shape rows = {9, width}, row = {width}, column = {9};
        std::vector<Operand> operands{normal(rows, 1, 3, type), normal(rows, 2, 1, type),
                                      normal(row, 3, 1, type), normal(row, 4, 1, type)};
        for (int i = 0; i < 4; ++i) operands.push_back(normal(rows, 5, 1, type));
        for (int i = 0; i < 4; ++i) operands.push_back(normal(column, 6));
        const Op op = [=](const std::vector<Tensor>& x, Stream stream) {
          add_and_norm(layer_norm, x, stream);
        };
        compare(operands, op, tolerance_of(type, 2e-5));
        if (module_with_device() == nullptr) continue;
        const auto results =
            run_on_device(CudaQueue(Device::cuda(0), *module_with_device()), operands, op);
        for (std::size_t i = 4; i < operands.size(); i += 2)
          CHECK(results[i].bytes == results[i + 1].bytes);
      }
}

TEST_CASE("CUDA: RMS norm of the heads of a fused projection", "[rms_norm]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {40, 64, 700, 2060})
      for (const bool accumulate : {false, true}) {
        const std::int64_t rows = 9, heads = 3;
        const Shape wide = {rows, heads * width + 8};
        compare(
            {normal(wide, 1, 1, type), normal({width}, 2, 1, type), normal(wide, 3, 1, type),
             normal({rows, heads}, 4), normal(wide, 5, 1, type), normal({width}, 6),
             normal(wide, 7, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              const auto view = [&](const Tensor& t) {
                return t.slice(1, 0, heads * width).split(1, heads);
              };
              rms_norm_fwd(view(x[0]), x[1], 1e-6f, view(x[2]), x[3], stream);
              rms_norm_bwd(view(x[6]), view(x[0]), x[1], x[3], accumulate,
                           view(accumulate ? x[4] : x[6]), x[5], stream);
            },
            tolerance_of(type, 2e-4));
      }
}

TEST_CASE("CUDA: embedding", "[embedding]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {37, 64})
      compare(
          {integers({3, 300}, 50, 7), normal({50, width}, 1, 1, type),
           normal({300, width}, 2, 1, type), normal({3, 300, width}, 3, 1, type),
           normal({50, width}, 4), normal({300, width}, 5), document_positions(3, 300, 70),
           normal({3, 300, width}, 6, 1, type)},
          [](const std::vector<Tensor>& x, Stream stream) {
            embedding_fwd(x[0], x[1], x[2], x[3], stream);
            embedding_fwd(x[0], x[1], x[2], x[7], stream, x[6]);
            embedding_bwd(x[0], x[3], x[4], x[5], stream);
            embedding_bwd(x[0], x[3], x[4], {}, stream);
            embedding_bwd(x[0], x[3], x[4], x[5], stream, x[6]);
          },
          type == DType::kF32 ? 2e-5 : 1e-4);  // one addition is rounded as on the CPU
}

TEST_CASE("CUDA: rotary positions", "[rope]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {8, 32, 34})
      compare(
          {normal({2, 5, 3, width}, 1, 1, type), normal({5, width / 2}, 2),
           normal({5, width / 2}, 3), normal({2, 5, 3, width}, 4, 1, type),
           document_positions(2, 5, 3)},
          [](const std::vector<Tensor>& x, Stream stream) {
            rope_fwd(x[0], x[1], x[2], stream);
            rope_bwd(x[3], x[1], x[2], stream, x[4]);
          },
          tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: dropout draws the CPU's numbers", "[dropout]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {333, 512})
      for (const float probability : {0.0f, 0.3f})
        compare(
            {normal({3, width}, 1, 1, type), normal({3, width}, 2, 1, type),
             normal({3, width}, 3, 1, type), normal({3, width}, 4, 1, type), sample_key(5, 17)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              const Dropout options{probability, 99, key_in(x[4]), 3};
              dropout_add(x[0], x[1], options, x[2], stream);
              dropout(x[1], options, x[3], stream);
            },
            tolerance_of(type, 1e-6));
}

TEST_CASE("CUDA: activations", "[activation]") {
  for (const DType type : kTypes)
    for (const Activation f :
         {Activation::kGeluTanh, Activation::kGelu, Activation::kRelu, Activation::kSilu})
      for (const std::int64_t width : {101, 64})
        compare(
            {normal({7, 2 * width}, 1, 3, type), normal({7, 2 * width}, 2, 1, type),
             normal({7, width}, 3, 1, type), normal({7, 2 * width}, 4, 1, type),
             normal({7, 2 * width}, 5, 1, type), normal({7, width}, 6, 1, type)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              activation_fwd(f, x[0], x[1], stream);
              activation_bwd(f, x[0], x[3], x[4], stream);
              gated_activation_fwd(f, x[0], x[2], stream);
              gated_activation_bwd(f, x[0], x[5], x[0], stream);
            },
            tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: cross-entropy", "[cross_entropy]") {
  for (const DType type : kTypes)
    for (const std::int64_t vocabulary : {5, 513, 2000})
      compare(
          {normal({9, vocabulary}, 1, 4, type), normal({9, vocabulary}, 2, 4, type),
           integers({9}, static_cast<std::int32_t>(vocabulary), kIgnoredTarget), normal({9}, 3),
           normal({9}, 4)},
          [](const std::vector<Tensor>& x, Stream stream) {
            cross_entropy_fwd_bwd(x[0], x[2], 0.3f, x[3], stream);
            cross_entropy_fwd_bwd(x[1], x[2], 1, x[4], stream);
          },
          tolerance_of(type, 2e-5));
}

TEST_CASE("CUDA: the loss of logits that are NaN is NaN", "[cross_entropy]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  Floats logits(2 * 700, 1.0f);
  logits[650] = NAN;
  logits[700 + 650] = -INFINITY;
  const auto results =
      run_on_device(queue, {floats(logits, {2, 700}), integers({2}, 700, 0), normal({2}, 1)},
                    [](const std::vector<Tensor>& x, Stream stream) {
                      cross_entropy_fwd_bwd(x[0], x[1], 1, x[2], stream);
                    });
  CHECK(std::isnan(results[2].floats()[0]));
  CHECK(std::isfinite(results[2].floats()[1]));
  CHECK(results[0].floats()[700 + 650] == 0);
}

TEST_CASE("CUDA: attention", "[attention]") {
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
            const AttentionOptions options{
                0.2f, c.window, {c.dropout, 3, key_in(x[10]), 6}, c.document > 0 ? x[9] : Tensor()};
            attention_fwd(x[0], x[1], x[2], options, x[3], x[4], stream);
            if (c.queries == c.keys)
              attention_bwd(x[5], x[0], x[1], x[2], x[3], x[4], options, x[6], x[7], x[8], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("CUDA: attention over cuDNN, with heads next to each other in rows", "[attention]") {
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

TEST_CASE("CUDA: fills, casts and sums over flat buffers", "[flat]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const CudaOpsTable& ops = queue.module().ops();
  const std::int64_t count = 40001;
  const Floats x = random_floats(count, 1);
  const DeviceCopy values(queue, floats(x, {count})), other(queue, floats(x, {count})),
      total(queue, stored<double>(Doubles(2), {2}, DType::kF64));
  float* const data = values.tensor.data<float>();
  float* const back = other.tensor.data<float>();

  for (const DType type : {DType::kBF16, DType::kF16}) {
    const Operand rounded = floats(x, {count}, type);
    const DeviceCopy half(queue, rounded);
    void* const narrow = half.tensor.data<std::uint16_t>();
    const CastArgs there{data, narrow, DType::kF32, type, count};
    const CastArgs and_back{narrow, back, type, DType::kF32, count};
    check(ops.cast(&there, queue.state()));
    check(ops.cast(&and_back, queue.state()));
    CHECK(half.read().bytes == rounded.bytes);
    CHECK(other.read().floats() == rounded.floats());
  }

  double* const sums = total.tensor.data<double>();
  const SumOfSquaresArgs squares{data, count, sums};
  const SumArgs sum{data, count, sums + 1};
  check(ops.sum_of_squares(&squares, queue.state()));
  check(ops.sum(&sum, queue.state()));
  double square = 0, plain = 0;
  for (const double v : x) {
    square += v * v;
    plain += v;
  }
  CHECK(std::abs(total.read().at<double>(0) - square) < 1e-9 * square);
  CHECK(std::abs(total.read().at<double>(1) - plain) < 1e-9 * square);

  const FillArgs fill{back, count - 2, 7, nullptr};
  check(ops.fill(&fill, queue.state()));
  CHECK(other.read().floats().front() == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 3] == 7);
  CHECK(other.read().floats()[static_cast<std::size_t>(count) - 2] != 7);
}

namespace {

/// Buffers of a model of one tensor after another, and an update of them.
struct Updated {
  static constexpr std::int64_t kCount = 1003, kDecayEnd = 400;
  explicit Updated(DType parameters = DType::kF32, DType states = DType::kF32)
      : p(queue, normal({kCount}, 1, 1, parameters)),
        s1(queue, floats(squares(3), {kCount}, states)),
        s2(queue, floats(squares(4), {kCount}, states)) {}
  CudaQueue queue{Device::cuda(0), *module_with_device()};
  const CudaOpsTable& ops = queue.module().ops();
  DeviceCopy p, g{queue, normal({kCount}, 2)}, s1, s2,
      weights{queue, normal({kCount}, 5, 1, DType::kBF16)},
      update{queue, normal({sizeof(Update) / 4}, 6)},
      sums{queue, stored<double>(Doubles{9.0, 1.0, 3.0}, {3}, DType::kF64)};

  static Floats squares(std::uint64_t seed) {
    Floats out = random_floats(kCount, seed);
    for (float& x : out) x *= x;
    return out;
  }
  Update* on_device() const { return reinterpret_cast<Update*>(update.tensor.data<float>()); }
  /// The update as prepare_update leaves it: squares of 9 at a loss scale of 2 are a norm of 1.5.
  Update prepare(Update values) {
    queue.copy(on_device(), &values, sizeof values);
    const PrepareUpdateArgs args{on_device(), sums.tensor.data<double>(),
                                 sums.tensor.data<double>() + 1, 2};
    check(ops.prepare_update(&args, queue.state()));
    queue.copy(&values, on_device(), sizeof values);
    queue.synchronize();
    return values;
  }
  UpdateElementsArgs elements(UpdateRule rule) const {
    return {rule,
            p.tensor.raw(),
            p.tensor.dtype(),
            g.tensor.data<float>(),
            s1.tensor.raw(),
            s2.tensor.raw(),
            s1.tensor.dtype(),
            p.tensor.dtype() == DType::kF32 ? weights.tensor.raw() : nullptr,
            DType::kBF16,
            kCount,
            kDecayEnd,
            on_device()};
  }
};

Update some_update() {
  return {.loss_scale = 2,
          .clip = 1,
          .tokens = 16,
          .lr = 0.1f,
          .weight_decay = 0.3f,
          .beta1 = 0.8f,
          .beta2 = 0.9f,
          .eps = 0.01f,
          .one_minus_beta1 = 0.2f,
          .one_minus_beta2 = 0.1f,
          .inverse_bc1 = 1.5f,
          .inverse_sqrt_bc2 = 1.25f,
          .momentum = 0.7f,
          .one_minus_dampening = 0.6f,
          .halt_on_nonfinite = 0,
          .loss = 0,
          .norm = 0,
          .gradient_factor = 0,
          .skip = 0,
          .halted = 0};
}

/// One element by the formulas of hgtrain/optim/optimizer.h.
struct Reference {
  double p, g, s1, s2;

  void apply(UpdateRule rule, const Update& u, double decay) {
    const double lr = u.lr, decayed = g + decay * p;
    switch (rule) {
      case UpdateRule::kAdamW:
      case UpdateRule::kAdam: {
        const double gradient = rule == UpdateRule::kAdam ? decayed : g;
        s1 = u.beta1 * s1 + u.one_minus_beta1 * gradient;
        s2 = u.beta2 * s2 + u.one_minus_beta2 * gradient * gradient;
        const double own = rule == UpdateRule::kAdam ? 0 : decay * p;
        p -= lr * (s1 * u.inverse_bc1 / (std::sqrt(s2) * u.inverse_sqrt_bc2 + u.eps) + own);
        return;
      }
      case UpdateRule::kLion: {
        const double direction = u.beta1 * s1 + u.one_minus_beta1 * g;
        p = p * (1 - lr * decay) - lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
        s1 = u.beta2 * s1 + u.one_minus_beta2 * g;
        return;
      }
      case UpdateRule::kAdagrad:
        s1 += decayed * decayed;
        p -= lr * decayed / (std::sqrt(s1) + u.eps);
        return;
      case UpdateRule::kSgd:
        p -= lr * decayed;
        return;
      case UpdateRule::kMomentum:
      case UpdateRule::kNesterov:
        s1 = u.momentum * s1 + u.one_minus_dampening * decayed;
        p -= lr * (rule == UpdateRule::kNesterov ? decayed + u.momentum * s1 : s1);
    }
  }
};

}  // namespace

TEST_CASE("CUDA: an update's factor clips the norm, and what is not finite is skipped",
          "[update]") {
  if (module_with_device() == nullptr) return;
  Updated buffers;
  const Update clipped = buffers.prepare(some_update());
  CHECK(clipped.norm == 1.5);
  CHECK(clipped.gradient_factor == static_cast<float>(1 / (1.5 + 1e-6) / 2));
  CHECK(clipped.loss == 0.25);
  CHECK(clipped.skip == 0);
  Update loose = some_update();
  loose.clip = 2;
  CHECK(buffers.prepare(loose).gradient_factor == 0.5f);
  loose.clip = 0;
  CHECK(buffers.prepare(loose).gradient_factor == 0.5f);
  double* const sums = buffers.sums.tensor.data<double>();
  for (double* const at : {sums, sums + 1}) {
    const double before = at == sums ? 9 : 1;
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      buffers.queue.copy(at, &bad, sizeof bad);
      loose.halt_on_nonfinite = 0;
      CHECK(buffers.prepare(loose).skip == 1);
      CHECK(buffers.prepare(loose).halted == 0);
      loose.halt_on_nonfinite = 1;
      CHECK(buffers.prepare(loose).halted == 1);
    }
    buffers.queue.copy(at, &before, sizeof before);
  }

  CHECK(buffers.prepare(loose).skip == 0);
  loose.halted = 1;
  CHECK(buffers.prepare(loose).skip == 1);

  const Operand p = buffers.p.read(), average = buffers.s1.read();
  const double bad = HUGE_VAL;
  buffers.queue.copy(sums, &bad, sizeof bad);
  buffers.prepare(loose);
  const UpdateElementsArgs args = buffers.elements(UpdateRule::kAdamW);
  const UpdateAverageArgs mean{buffers.s1.tensor.data<float>(),
                               args.parameters,
                               args.parameter_type,
                               args.count,
                               0.75f,
                               0.25f,
                               args.update};
  check(buffers.ops.update_elements(&args, buffers.queue.state()));
  check(buffers.ops.update_average(&mean, buffers.queue.state()));
  CHECK(buffers.p.read().bytes == p.bytes);
  CHECK(buffers.s1.read().bytes == average.bytes);
}

TEST_CASE("CUDA: every optimizer follows its formula and rounds the weights", "[update]") {
  if (module_with_device() == nullptr) return;
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kNesterov); ++rule) {
    INFO("rule " << rule);
    Updated buffers;
    const Update update = buffers.prepare(some_update());
    const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                 s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
    UpdateElementsArgs args = buffers.elements(static_cast<UpdateRule>(rule));
    check(buffers.ops.update_elements(&args, buffers.queue.state()));
    Doubles expected_p, expected_s1, expected_s2;
    for (std::size_t i = 0; i < p.size(); ++i) {
      Reference element{p[i], static_cast<double>(g[i]) * update.gradient_factor, s1[i], s2[i]};
      element.apply(args.rule, update,
                    static_cast<std::int64_t>(i) < Updated::kDecayEnd ? update.weight_decay : 0);
      expected_p.push_back(element.p);
      expected_s1.push_back(element.s1);
      expected_s2.push_back(element.s2);
    }
    const Floats updated = buffers.p.read().floats();
    CHECK(error_of(updated, expected_p) < 2e-6);
    CHECK(error_of(buffers.s1.read().floats(), expected_s1) < 2e-6);
    CHECK(error_of(buffers.s2.read().floats(), expected_s2) < 2e-6);
    CHECK(buffers.weights.read().bytes == floats(updated, {Updated::kCount}, DType::kBF16).bytes);

    const UpdateAverageArgs mean{buffers.s2.tensor.data<float>(),
                                 args.parameters,
                                 args.parameter_type,
                                 args.count,
                                 0.75f,
                                 0.25f,
                                 nullptr};
    check(buffers.ops.update_average(&mean, buffers.queue.state()));
    for (std::size_t i = 0; i < p.size(); ++i)
      expected_s2[i] = 0.75 * expected_s2[i] + 0.25 * expected_p[i];
    CHECK(error_of(buffers.s2.read().floats(), expected_s2) < 2e-6);

    args.weights = nullptr;  // training in fp32
    check(buffers.ops.update_elements(&args, buffers.queue.state()));
    CHECK(buffers.weights.read().bytes == floats(updated, {Updated::kCount}, DType::kBF16).bytes);
    CHECK(buffers.p.read().floats() != updated);
  }
}

TEST_CASE("CUDA: parameters and state of bf16 are rounded by the numbers of their elements",
          "[update]") {
  if (module_with_device() == nullptr) return;
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kNesterov); ++rule)
    for (const DType states : {DType::kF32, DType::kBF16}) {
      INFO("rule " << rule << ", states of " << name_of(states));
      Updated buffers(DType::kBF16, states);
      Update chosen = some_update();
      chosen.rounding_key = 0x123456789abcdef0;
      const Update update = buffers.prepare(chosen);
      const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                   s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
      const UpdateElementsArgs args = buffers.elements(static_cast<UpdateRule>(rule));
      check(buffers.ops.update_elements(&args, buffers.queue.state()));
      const Floats new_p = buffers.p.read().floats(), new_s1 = buffers.s1.read().floats(),
                   new_s2 = buffers.s2.read().floats();
      int other = 0;  // a different last bit of fp32 may round differently
      const auto expect = [&](double exact, float actual, DType type, Rounded what, std::size_t i) {
        const float x = static_cast<float>(exact);
        if (type == DType::kF32) {
          REQUIRE(std::abs(actual - x) < 2e-6 * (1 + std::abs(x)));
          return;
        }
        REQUIRE(
            (actual == round_stochastically(x, 0) || actual == round_stochastically(x, 0xffff)));
        const auto words =
            rounding_words(update.rounding_key, what, static_cast<std::int64_t>(i / 8));
        if (actual != round_stochastically(x, words[i % 8 / 2] >> (i % 2 * 16))) ++other;
      };
      for (std::size_t i = 0; i < p.size(); ++i) {
        Reference element{p[i], static_cast<double>(g[i]) * update.gradient_factor, s1[i], s2[i]};
        element.apply(args.rule, update,
                      static_cast<std::int64_t>(i) < Updated::kDecayEnd ? update.weight_decay : 0);
        expect(element.p, new_p[i], DType::kBF16, Rounded::kParameter, i);
        if (element.s1 != s1[i]) expect(element.s1, new_s1[i], states, Rounded::kState1, i);
        if (element.s2 != s2[i]) expect(element.s2, new_s2[i], states, Rounded::kState2, i);
      }
      CHECK(other < 10);

      const UpdateAverageArgs mean{buffers.g.tensor.data<float>(),
                                   args.parameters,
                                   DType::kBF16,
                                   Updated::kCount,
                                   0.75f,
                                   0.25f,
                                   nullptr};
      check(buffers.ops.update_average(&mean, buffers.queue.state()));
      const Floats average = buffers.g.read().floats();
      for (std::size_t i = 0; i < p.size(); ++i)
        REQUIRE(average[i] == Approx(0.75 * g[i] + 0.25 * new_p[i]).margin(1e-6));
    }
}

TEST_CASE("CUDA: Lamb's update is scaled by the norms of its tensor", "[update]") {
  if (module_with_device() == nullptr) return;
  for (const bool inside : {false, true}) {
    const double lowest = inside ? 0.01 : 0.5, highest = inside ? 100 : 1.1;
    Updated buffers;
    Update asked = some_update();
    if (inside) asked.eps = 0;  // harmless if a piece ends within a thread's elements
    const Update u = buffers.prepare(asked);
    const LambPiece pieces[] = {
        {0, 300, 0, 1}, {300, 400, 0, 1}, {400, 800, 1, 0}, {801, 1003, 2, 0}};
    const std::int64_t first_pieces[] = {0, 2, 3, 4};
    const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                 s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
    const DeviceCopy on_device(buffers.queue, normal({sizeof pieces / 4}, 1)),
        firsts(buffers.queue, normal({sizeof first_pieces / 4}, 1));
    buffers.queue.copy(on_device.tensor.data<float>(), pieces, sizeof pieces);
    buffers.queue.copy(firsts.tensor.data<float>(), first_pieces, sizeof first_pieces);
    const UpdateElementsArgs like = buffers.elements(UpdateRule::kAdamW);
    const UpdateLambArgs args{buffers.p.tensor.data<float>(),
                              like.gradients,
                              buffers.s1.tensor.data<float>(),
                              buffers.s2.tensor.data<float>(),
                              like.weights,
                              like.weight_type,
                              reinterpret_cast<const LambPiece*>(on_device.tensor.data<float>()),
                              reinterpret_cast<const std::int64_t*>(firsts.tensor.data<float>()),
                              4,
                              3,
                              static_cast<float>(lowest),
                              static_cast<float>(highest),
                              inside,
                              like.update};
    check(buffers.ops.update_lamb(&args, buffers.queue.state()));

    Doubles expected = doubles(p), changes(p.size());
    double weight[3] = {}, change[3] = {};
    for (const LambPiece& piece : pieces)
      for (auto i = static_cast<std::size_t>(piece.begin); static_cast<std::int64_t>(i) < piece.end;
           ++i) {
        const double gradient = static_cast<double>(g[i]) * u.gradient_factor;
        const double m = u.beta1 * s1[i] + u.one_minus_beta1 * gradient,
                     v = u.beta2 * s2[i] + u.one_minus_beta2 * gradient * gradient;
        changes[i] = m / (inside ? std::sqrt(v + u.eps) : std::sqrt(v) + u.eps) +
                     (piece.decay != 0 ? u.weight_decay * p[i] : 0.0);
        weight[piece.tensor] += expected[i] * expected[i];
        change[piece.tensor] += changes[i] * changes[i];
      }
    for (const LambPiece& piece : pieces)
      for (auto i = static_cast<std::size_t>(piece.begin); static_cast<std::int64_t>(i) < piece.end;
           ++i)
        expected[i] -=
            u.lr * changes[i] *
            std::clamp(std::sqrt(weight[piece.tensor] / change[piece.tensor]), lowest, highest);
    const Floats updated = buffers.p.read().floats();
    CHECK(error_of(updated, expected) < 4e-6);
    CHECK(updated[800] == p[800]);  // belongs to no tensor
    const Floats rounded = floats(updated, {Updated::kCount}, DType::kBF16).floats();
    const Floats weights = buffers.weights.read().floats();
    CHECK((weights[0] == rounded[0] && weights[799] == rounded[799] &&
           weights[1002] == rounded[1002]));
  }
}

TEST_CASE("CUDA: cross-entropy of logits far from zero and from each other", "[cross_entropy]") {
  Floats low = random_floats(9 * 703, 1);
  for (float& x : low) x -= 300;
  for (const Floats& logits : {low, random_floats(9 * 703, 2, 200)})
    compare(
        {floats(logits, {9, 703}), integers({9}, 703, kIgnoredTarget), normal({9}, 3)},
        [](const std::vector<Tensor>& x, Stream stream) {
          cross_entropy_fwd_bwd(x[0], x[1], 0.3f, x[2], stream);
        },
        2e-5);
}

TEST_CASE("CUDA: targets and tokens that are not there give what is not a number",
          "[cross_entropy][embedding]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  for (const std::int32_t bad : {-1, -(1 << 30), 700, 1 << 30}) {
    const auto losses =
        run_on_device(queue, {normal({9, 700}, 1), integers({9}, 700, bad), normal({9}, 2)},
                      [](const std::vector<Tensor>& x, Stream stream) {
                        cross_entropy_fwd_bwd(x[0], x[1], 1, x[2], stream);
                      });
    const auto rows = run_on_device(queue,
                                    {integers({1, 9}, 700, bad), normal({700, 21}, 1),
                                     normal({1, 9, 21}, 2), normal({700, 21}, 3)},
                                    [](const std::vector<Tensor>& x, Stream stream) {
                                      embedding_fwd(x[0], x[1], {}, x[2], stream);
                                      embedding_bwd(x[0], x[2], x[3], {}, stream);
                                    });
    for (std::size_t row = 0; row < 9; ++row) {
      INFO("row " << row);
      const bool none = row == 3;  // the bad id
      CHECK(std::isnan(losses[2].floats()[row]) == none);
      CHECK(std::isnan(losses[0].floats()[row * 700 + 699]) == none);
      CHECK(std::isnan(rows[2].floats()[row * 21 + 20]) == none);
    }
    for (const float x : rows[3].floats()) CHECK(std::isfinite(x));  // belongs to no row
  }
}

TEST_CASE("CUDA: embeddings of few and of many rows", "[embedding]") {
  for (const std::int64_t vocabulary : {3, 2500})
    compare({integers({2, 5}, static_cast<std::int32_t>(vocabulary), 1), normal({vocabulary, 1}, 1),
             normal({2, 5, 1}, 2), normal({vocabulary, 1}, 3)},
            [](const std::vector<Tensor>& x, Stream stream) {
              embedding_fwd(x[0], x[1], {}, x[2], stream);
              embedding_bwd(x[0], x[2], x[3], {}, stream);
            });
}

TEST_CASE("CUDA: embeddings of one repeated token", "[embedding]") {
  std::vector<std::int32_t> ids(192, 1);  // three whole chunks of 64 and an end
  ids.resize(200, 4);
  compare({stored<std::int32_t>(ids, {1, 200}, DType::kI32), normal({5, 9}, 1),
           normal({1, 200, 9}, 2), normal({5, 9}, 3)},
          [](const std::vector<Tensor>& x, Stream stream) {
            embedding_bwd(x[0], x[2], x[3], {}, stream);
          });
}
