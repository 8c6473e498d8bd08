#include "hgtrain/ops/cuda_ops.h"

#include <cstring>
#include <functional>
#include <memory>

#include <catch2/catch.hpp>

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

#include "reference.h"

// Each op on a CUDA device, a real one or the emulated (tests/emulation), against the same op on
// the CPU, odd sizes. Without a device nothing is compared. A test's tag is the kernels' file:
// src/ops/<tag>_cuda.cu.

using namespace hgt;

namespace {

using Shape = std::vector<std::int64_t>;

/// The built module, where it finds a device; null otherwise.
const CudaModule* module_with_device() {
  static const std::unique_ptr<CudaModule> module = [] {
    CudaModule::Search search = CudaModule::default_search();
    search.module_folders.push_back(HGT_BUILD_ROOT);
    auto opened = std::make_unique<CudaModule>(search);
    if (opened->probe().device_count == 0) opened.reset();
    return opened;
  }();
  return module.get();
}

/// What an op reads and writes: fp32 or int32.
struct Operand {
  std::vector<std::uint32_t> words;
  Shape shape;
  DType dtype;

  Tensor on_cpu() { return Tensor(words.data(), shape, dtype); }
};

Operand floats(const Floats& values, const Shape& shape) {
  Operand out{std::vector<std::uint32_t>(values.size()), shape, DType::kF32};
  std::memcpy(out.words.data(), values.data(), values.size() * sizeof(float));
  return out;
}

Operand normal(const Shape& shape, std::uint64_t seed, float scale = 1) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return floats(random_floats(count, seed, scale), shape);
}

/// Numbers in [0, below), some of them `sometimes`.
Operand integers(const Shape& shape, std::int32_t below, std::int32_t sometimes) {
  Operand out = normal(shape, 99);
  out.dtype = DType::kI32;
  for (std::size_t i = 0; i < out.words.size(); ++i)
    out.words[i] = static_cast<std::uint32_t>(
        i % 7 == 3 ? sometimes : static_cast<std::int32_t>(i * i + 5) % below);
  return out;
}

/// Device memory with a copy of an operand.
class DeviceCopy {
 public:
  DeviceCopy(const CudaQueue& queue, const Operand& operand)
      : queue_(queue), bytes_(operand.words.size() * 4) {
    check(queue.module().device().allocate(0, bytes_, &memory_));
    queue.copy(memory_, operand.words.data(), bytes_);
    tensor = Tensor(memory_, operand.shape, operand.dtype, queue.device());
  }
  ~DeviceCopy() { (void)queue_.module().device().release(0, memory_); }
  std::vector<std::uint32_t> read() const {
    std::vector<std::uint32_t> words(bytes_ / 4);
    queue_.copy(words.data(), memory_, bytes_);
    queue_.synchronize();
    return words;
  }
  Tensor tensor;

 private:
  const CudaQueue& queue_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

using Op = std::function<void(const std::vector<Tensor>&, Stream)>;

/// Runs the op on both devices with the same operands; all of them agree afterwards, and a second
/// run on the device gives the same bits.
void compare(const std::vector<Operand>& operands, const Op& op, double tolerance = 2e-5) {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const auto on_cuda = [&] {
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<Tensor> tensors;
    for (const Operand& operand : operands) {
      copies.push_back(std::make_unique<DeviceCopy>(queue, operand));
      tensors.push_back(copies.back()->tensor);
    }
    op(tensors, Stream(queue));
    std::vector<std::vector<std::uint32_t>> results;
    for (const auto& copy : copies) results.push_back(copy->read());
    return results;
  };
  ThreadPool pool(1);
  std::vector<Operand> expected = operands;
  std::vector<Tensor> tensors;
  for (Operand& operand : expected) tensors.push_back(operand.on_cpu());
  op(tensors, Stream(pool));
  const auto results = on_cuda();
  CHECK(results == on_cuda());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("operand " << i);
    if (expected[i].dtype != DType::kF32) continue;
    Floats actual(results[i].size()), wanted(results[i].size());
    std::memcpy(actual.data(), results[i].data(), results[i].size() * 4);
    std::memcpy(wanted.data(), expected[i].words.data(), results[i].size() * 4);
    CHECK(error_of(actual, doubles(wanted)) < tolerance);
  }
}

}  // namespace

TEST_CASE("CUDA: matrix products in every orientation", "[gemm]") {
  for (int flips = 0; flips < 8; ++flips) {
    const bool a = flips & 1, b = flips & 2, c = flips & 4;
    const Shape mk = {33, 70}, kn = {70, 19}, mn = {33, 19};
    const auto stored = [](const Shape& shape, bool flip) {
      return flip ? Shape{shape[1], shape[0]} : shape;
    };
    compare({normal(stored(mk, a), 1), normal(stored(kn, b), 2), normal(stored(mn, c), 3)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              gemm(0.5f, a ? x[0].transposed() : x[0], b ? x[1].transposed() : x[1], 2,
                   c ? x[2].transposed() : x[2], stream);
            });
  }
}

TEST_CASE("CUDA: a linear layer", "[linear]") {
  compare({normal({21, 34}, 1), normal({34, 55}, 2), normal({55}, 3), normal({21, 55}, 4),
           normal({21, 55}, 5), normal({21, 34}, 6), normal({34, 55}, 7), normal({55}, 8)},
          [](const std::vector<Tensor>& x, Stream stream) {
            linear_fwd(x[0], x[1], x[2], x[3], stream);
            linear_bwd_input(x[4], x[1], x[5], stream);
            linear_bwd_weight(x[0], x[4], x[6], x[7], stream);
          });
}

TEST_CASE("CUDA: layer norm", "[layer_norm]") {
  for (const std::int64_t width : {7, 33, 1025})
    for (const bool accumulate : {false, true}) {
      const Shape rows = {70, width}, row = {width}, column = {70};
      compare(
          {normal(rows, 1, 3), normal(row, 2), normal(row, 3), normal(rows, 4), normal(column, 5),
           normal(column, 6), normal(rows, 7), normal(row, 8), normal(row, 9)},
          [=](const std::vector<Tensor>& x, Stream stream) {
            layer_norm_fwd(x[0], x[1], x[2], 1e-5f, x[3], x[4], x[5], stream);
            const Tensor& dx = accumulate ? x[6] : x[3];  // in place where it is not added to
            layer_norm_bwd(x[3], x[0], x[1], x[4], x[5], accumulate, dx, x[7], x[8], stream);
          },
          2e-4);
    }
}

TEST_CASE("CUDA: RMS norm of the heads of a fused projection", "[rms_norm]") {
  for (const bool accumulate : {false, true}) {
    const std::int64_t rows = 9, heads = 3, width = 40;
    compare(
        {normal({rows, heads * width + 8}, 1), normal({width}, 2),
         normal({rows, heads * width + 8}, 3), normal({rows, heads}, 4),
         normal({rows, heads * width + 8}, 5), normal({width}, 6)},
        [=](const std::vector<Tensor>& x, Stream stream) {
          const auto view = [&](const Tensor& t) {
            return t.slice(1, 0, heads * width).split(1, heads);
          };
          rms_norm_fwd(view(x[0]), x[1], 1e-6f, view(x[2]), x[3], stream);
          rms_norm_bwd(view(x[2]), view(x[0]), x[1], x[3], accumulate,
                       view(accumulate ? x[4] : x[2]), x[5], stream);
        },
        2e-4);
  }
}

TEST_CASE("CUDA: embedding", "[embedding]") {
  compare({integers({3, 300}, 50, 7), normal({50, 37}, 1), normal({300, 37}, 2),
           normal({3, 300, 37}, 3), normal({50, 37}, 4), normal({300, 37}, 5)},
          [](const std::vector<Tensor>& x, Stream stream) {
            embedding_fwd(x[0], x[1], x[2], x[3], stream);
            embedding_bwd(x[0], x[3], x[4], x[5], stream);
            embedding_bwd(x[0], x[3], x[4], {}, stream);
          });
}

TEST_CASE("CUDA: rotary positions", "[rope]") {
  compare({normal({2, 5, 3, 8}, 1), normal({5, 4}, 2), normal({5, 4}, 3)},
          [](const std::vector<Tensor>& x, Stream stream) { rope_fwd(x[0], x[1], x[2], stream); });
  compare({normal({2, 5, 3, 8}, 1), normal({5, 4}, 2), normal({5, 4}, 3)},
          [](const std::vector<Tensor>& x, Stream stream) { rope_bwd(x[0], x[1], x[2], stream); });
}

TEST_CASE("CUDA: dropout draws the CPU's numbers", "[dropout]") {
  for (const float probability : {0.0f, 0.3f})
    compare(
        {normal({3, 333}, 1), normal({3, 333}, 2), normal({3, 333}, 3), normal({3, 333}, 4)},
        [=](const std::vector<Tensor>& x, Stream stream) {
          const Dropout options{probability, 99, 5, 17, 3};
          dropout_add(x[0], x[1], options, x[2], stream);
          dropout(x[1], options, x[3], stream);
        },
        1e-6);
}

TEST_CASE("CUDA: activations", "[activation]") {
  for (const Activation f :
       {Activation::kGeluTanh, Activation::kGelu, Activation::kRelu, Activation::kSilu})
    compare({normal({7, 202}, 1, 3), normal({7, 202}, 2), normal({7, 101}, 3), normal({7, 202}, 4),
             normal({7, 202}, 5), normal({7, 101}, 6)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              activation_fwd(f, x[0], x[1], stream);
              activation_bwd(f, x[0], x[3], x[4], stream);
              gated_activation_fwd(f, x[0], x[2], stream);
              gated_activation_bwd(f, x[0], x[5], x[0], stream);
            });
}

TEST_CASE("CUDA: cross-entropy", "[cross_entropy]") {
  for (const std::int64_t vocabulary : {5, 513, 2000})
    compare({normal({9, vocabulary}, 1, 4), normal({9, vocabulary}, 2, 4),
             integers({9}, static_cast<std::int32_t>(vocabulary), kIgnoredTarget), normal({9}, 3),
             normal({9}, 4)},
            [](const std::vector<Tensor>& x, Stream stream) {
              cross_entropy_fwd_bwd(x[0], x[2], 0.3f, x[3], stream);
              cross_entropy_fwd_bwd(x[1], x[2], 1, x[4], stream);
            });
}

TEST_CASE("CUDA: attention", "[attention]") {
  struct Case {
    std::int64_t queries, keys, heads, key_heads, width, window;
    float dropout;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 1, 0, 0}, Case{37, 37, 4, 2, 20, 0, 0},
                        Case{37, 37, 4, 2, 20, 5, 0}, Case{70, 70, 2, 1, 64, 0, 0.2f},
                        Case{3, 50, 4, 4, 130, 7, 0}, Case{33, 33, 2, 2, 256, 32, 0.1f}}) {
    const Shape q = {2, c.queries, c.heads, c.width}, k = {2, c.keys, c.key_heads, c.width};
    const Shape lse = {2, c.heads, c.queries};
    compare({normal(q, 1), normal(k, 2), normal(k, 3), normal(q, 4), normal(lse, 5), normal(q, 6),
             normal(q, 7), normal(k, 8), normal(k, 9)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              const AttentionOptions options{0.2f, c.window, {c.dropout, 3, 4, 5, 6}};
              attention_fwd(x[0], x[1], x[2], options, x[3], x[4], stream);
              if (c.queries == c.keys)
                attention_bwd(x[5], x[0], x[1], x[2], x[3], x[4], options, x[6], x[7], x[8],
                              stream);
            });
  }
}

TEST_CASE("CUDA: fills, casts, Adam and the sum of squares over flat buffers", "[flat]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const CudaOpsTable& ops = queue.module().ops();
  const std::int64_t count = 40001;
  const Floats x = random_floats(count, 1);
  const auto floats_of = [](const DeviceCopy& copy) {
    const auto words = copy.read();
    Floats out(words.size());
    std::memcpy(out.data(), words.data(), words.size() * 4);
    return out;
  };
  const DeviceCopy values(queue, floats(x, {count})), other(queue, floats(x, {count})),
      half(queue, floats(x, {count})), total(queue, floats(Floats(2), {2}));
  float* const data = values.tensor.data<float>();
  void* const small = half.tensor.data<float>();

  for (const CudaFloat type : {CudaFloat::kBF16, CudaFloat::kF16}) {
    const CastArgs there{data, small, CudaFloat::kF32, type, count};
    const CastArgs back{small, other.tensor.data<float>(), type, CudaFloat::kF32, count};
    check(ops.cast(&there, queue.state()));
    check(ops.cast(&back, queue.state()));
    CHECK(error_of(floats_of(other), doubles(x)) < (type == CudaFloat::kBF16 ? 4e-3 : 5e-4));
  }

  const SumOfSquaresArgs squares{data, count,
                                 reinterpret_cast<double*>(total.tensor.data<float>())};
  check(ops.sum_of_squares(&squares, queue.state()));
  double sum = 0, expected = 0;
  const auto words = total.read();
  std::memcpy(&sum, words.data(), sizeof sum);
  for (const float v : x) expected += static_cast<double>(v) * static_cast<double>(v);
  CHECK(std::abs(sum - expected) < 1e-9 * expected);

  const FillArgs zero{other.tensor.data<float>(), count, 0};
  const FillArgs zero_too{static_cast<float*>(small), count, 0};
  check(ops.fill(&zero, queue.state()));
  check(ops.fill(&zero_too, queue.state()));
  const AdamArgs adam{data,
                      data,
                      other.tensor.data<float>(),
                      static_cast<float*>(small),
                      count,
                      count / 2,
                      1e-3f,
                      0.9f,
                      0.99f,
                      1e-8f,
                      0.1f,
                      1,
                      10,
                      10,
                      true};
  check(ops.adam(&adam, queue.state()));
  Doubles updated =
      doubles(x);  // a first step: the moments are the gradient's, the change is its sign
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const double sign = updated[i] < 0 ? -1 : 1,
                 decay = static_cast<std::int64_t>(i) < count / 2 ? 0.1 : 0;
    updated[i] -= 1e-3 * (sign + decay * updated[i]);
  }
  CHECK(error_of(floats_of(values), updated) < 1e-6);
}
