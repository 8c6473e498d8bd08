#include <array>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"

#include "add_received.h"
#include "cuda/launchers.h"
#include "device_state.h"
#include "gemm_operands.h"
#include "reference.h"

// Kernels get memory of more than 2^31 elements, of which only the pages that they touch exist. In
// each test, its last values are the same as those of small memory, and so must be the results.

using namespace hgt;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 31;

/// Of large grids, the first and the last blocks run.
struct FewBlocks {
  explicit FewBlocks(std::uint64_t most = 64) { emulation::device_state.most_blocks = most; }
  ~FewBlocks() { emulation::device_state = {}; }
};

EmulatedMemory memory_of(std::int64_t bytes) {
  return {emulation::allocate(static_cast<std::size_t>(bytes), 0), emulation::release};
}

/// `count` elements twice: alone, and behind at least 2^31 others, a multiple of `row`.
class Twice {
 public:
  Twice(DType type, std::int64_t count, std::int64_t row = 64)
      : before((kFar / row + 1) * row),
        all(before + count),
        size_(static_cast<std::int64_t>(size_of(type))),
        bytes_(static_cast<std::size_t>(count * size_)),
        far_(memory_of(all * size_)),
        near_(memory_of(count * size_)) {
    static std::uint64_t seed = 0;
    const ::Floats values = random_floats(count, ++seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const BFloat16 narrow(values[i]);
      std::memcpy(near<std::byte>() + static_cast<std::int64_t>(i) * size_,
                  type == DType::kBF16 ? static_cast<const void*>(&narrow) : &values[i],
                  static_cast<std::size_t>(size_));
    }
    std::memcpy(last(), near(), bytes_);
  }
  template <class T = void>
  T* far() const {
    return static_cast<T*>(far_.get());
  }
  template <class T = void>
  T* near() const {
    return static_cast<T*>(near_.get());
  }
  /// The far copy of the values.
  void* last() const { return far<std::byte>() + before * size_; }
  bool is_same() const { return std::memcmp(last(), near(), bytes_) == 0; }

  const std::int64_t before, all;

 private:
  const std::int64_t size_;
  const std::size_t bytes_;
  const EmulatedMemory far_, near_;
};

/// Which copy a kernel gets.
struct Near {
  static constexpr bool kIsFar = false;
  void* operator()(const Twice& x) const { return x.near(); }
};
struct Far {
  static constexpr bool kIsFar = true;
  void* operator()(const Twice& x) const { return x.far(); }
};
/// Calls run(Near or Far, a stream) for both.
template <class Run>
void run_both(const Run& run) {
  CudaStreamState stream;
  run(Near(), stream);
  run(Far(), stream);
}

std::vector<std::int32_t> ids(std::int64_t count, std::int32_t id) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(count), id);
}

}  // namespace

TEST_CASE("ops over flat memory reach elements beyond 2^31") {
  const FewBlocks few;
  constexpr std::int64_t kCount = 256;
  const Twice wide(DType::kF32, kCount), more(DType::kF32, kCount), back(DType::kF32, kCount),
      narrow(DType::kBF16, kCount), branch(DType::kBF16, kCount);
  // Each row of 64 elements is a sample, so that the last ones have the same numbers in both.
  const SampleKey keys[] = {{1, narrow.before / 64}, {1, 0}};
  run_both([&](auto at, CudaStreamState& stream) {
    const std::int64_t count = decltype(at)::kIsFar ? wide.all : kCount;
    const Activation f = Activation::kGeluTanh;
    cuda::cast({at(wide), at(narrow), DType::kF32, DType::kBF16, count}, stream);
    cuda::cast({at(narrow), at(back), DType::kBF16, DType::kF32, count}, stream);
    cuda::activation_bwd({at(branch), at(narrow), at(narrow), DType::kBF16, count, f}, stream);
    cuda::activation_fwd({at(branch), at(branch), DType::kBF16, count, f}, stream);
    cuda::dropout_add({at(narrow),
                       at(branch),
                       at(branch),
                       DType::kBF16,
                       count,
                       64,
                       {},
                       {0.5f, 1, &keys[decltype(at)::kIsFar], 2}},
                      stream);
    cuda::accumulate(
        {static_cast<float*>(at(wide)), static_cast<float*>(at(more)), count, false, nullptr},
        stream);
    cuda::fill({static_cast<float*>(at(wide)), count, 3, nullptr}, stream);
  });
  for (const Twice* x : {&wide, &more, &back, &narrow, &branch}) CHECK(x->is_same());
  CHECK(wide.near<float>()[kCount - 1] == 3);
  CHECK(static_cast<float*>(wide.far())[0] == 3);
}

TEST_CASE("ops over rows reach elements beyond 2^31") {
  const FewBlocks few;
  constexpr std::int64_t kWidth = 2048, kRows = 2;  // a row is one block
  const Twice gates(DType::kBF16, 2 * kRows * kWidth, 2 * kWidth),
      gradient(DType::kBF16, 2 * kRows * kWidth, 2 * kWidth),
      y(DType::kBF16, kRows * kWidth, kWidth);
  run_both([&](auto at, CudaStreamState& stream) {
    // Of far memory, y has fewer rows: 2^31 elements are half as many of the gates.
    const Activation f = Activation::kSilu;
    const std::int64_t rows = decltype(at)::kIsFar ? gates.all / (2 * kWidth) : kRows;
    const auto y_of = [&] {
      return decltype(at)::kIsFar ? static_cast<std::byte*>(y.last()) - (rows - kRows) * kWidth * 2
                                  : static_cast<std::byte*>(y.near());
    };
    cuda::gated_activation_fwd({at(gates), y_of(), DType::kBF16, rows, kWidth, f}, stream);
    cuda::gated_activation_bwd({at(gates), y_of(), at(gradient), DType::kBF16, rows, kWidth, f},
                               stream);
  });
  CHECK(y.is_same());
  CHECK(gradient.is_same());

  constexpr std::int64_t kVocabulary = 50257, kPadded = 50304;
  const Twice logits(DType::kBF16, kRows * kPadded, kPadded),
      part(DType::kBF16, kRows * kPadded, kPadded);
  const std::int64_t far_rows = logits.all / kPadded;
  const auto targets = ids(far_rows, 7);
  const auto floats = [&](std::int64_t each) { return memory_of(far_rows * each * 4); };
  const EmulatedMemory losses[] = {floats(1), floats(1)}, sums[] = {floats(3), floats(3)},
                       finished[] = {floats(1), floats(1)};
  run_both([&](auto at, CudaStreamState& stream) {
    constexpr bool kIsFar = decltype(at)::kIsFar;
    const std::int64_t rows = kIsFar ? far_rows : kRows;
    const auto of = [&](const EmulatedMemory(&both)[2]) {
      return static_cast<float*>(both[kIsFar].get());
    };
    cuda::cross_entropy({at(logits), DType::kBF16, targets.data(), of(losses), rows, kPadded,
                         kVocabulary, -100, 0.5f, true},
                        stream);
    const CrossEntropyPartArgs args{at(part),    DType::kBF16, targets.data(), of(sums),
                                    rows,        kPadded,      kVocabulary,    0,
                                    kVocabulary, -100};
    cuda::cross_entropy_part(args, stream);
    cuda::cross_entropy_finish({args, 1, of(finished), 0.5f, true}, stream);
  });
  CHECK(logits.is_same());
  CHECK(part.is_same());
  for (const auto& both : {&losses, &finished}) {
    const auto* const near = static_cast<const float*>((*both)[0].get());
    const auto* const far = static_cast<const float*>((*both)[1].get());
    CHECK(near[kRows - 1] > 0);
    CHECK(near[kRows - 1] == far[far_rows - 1]);
  }
}

TEST_CASE("an embedding reaches elements beyond 2^31") {
  const FewBlocks few(4096);  // those that count rows all run
  constexpr std::int64_t kWidth = 4096, kRows = 2;
  const Twice table(DType::kBF16, kRows * kWidth, kWidth),
      out(DType::kBF16, kRows * kWidth, kWidth), dtable(DType::kF32, kRows * kWidth, kWidth);
  const std::int64_t far_rows = out.all / kWidth;
  for (const bool is_last : {false, true}) {  // the token of the first rows, or of the last
    CudaStreamState stream;
    const auto run = [&](bool is_far) {
      const std::int64_t rows = is_far ? far_rows : kRows, last = rows - 1;
      std::vector<std::int32_t> tokens;
      for (std::int64_t n = 0; n < rows; ++n)
        tokens.push_back(static_cast<std::int32_t>(is_last || n >= rows - kRows ? n : 0));
      if (!is_last)  // few rows in all
        for (std::int64_t n = 0; n < rows - kRows; ++n) tokens[static_cast<std::size_t>(n)] = -1;
      void* const of_table = is_far ? table.far() : table.near();
      void* const of_out = is_far ? out.far() : out.near();
      float* const of_dtable = is_far ? dtable.far<float>() : dtable.near<float>();
      cuda::embedding_fwd({tokens.data(), nullptr, of_table, nullptr, of_out, DType::kBF16, rows, 1,
                           kWidth, last + 1, 0, last + 1},
                          stream);
      cuda::embedding_bwd({tokens.data(), nullptr, of_out, DType::kBF16, of_dtable, nullptr, rows,
                           1, kWidth, 0, last + 1},
                          stream);
    };
    run(false);
    run(true);
    CHECK(out.is_same());
    CHECK(dtable.is_same());
  }
}

TEST_CASE("ops with strides reach elements beyond 2^31") {
  const FewBlocks few;
  constexpr std::int64_t kHeads = 2, kWidth = 64, kLength = 3, kRow = 3 * kHeads * kWidth;
  constexpr std::int64_t kStride = kFar / 2 + 64;  // the third row begins beyond 2^31
  /// Rows, or samples, that lie a stride apart, or without gaps.
  const auto spread = [&](std::int64_t count, std::int64_t elements) {
    return memory_of(2 * ((count - 1) * kStride + elements));
  };
  const ::Floats values = random_floats(3 * kLength * kRow, 1);
  const auto set = [&](void* memory, std::int64_t stride, std::int64_t elements) {
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t i = 0; i < elements; ++i)
        static_cast<BFloat16*>(memory)[b * stride + i] =
            BFloat16(values[static_cast<std::size_t>(b * elements + i)]);
  };
  const auto same = [&](const void* near, std::int64_t near_stride, const void* far,
                        std::int64_t elements) {
    bool all = true;
    for (std::int64_t b = 0; b < 3; ++b)
      all = all && std::memcmp(static_cast<const BFloat16*>(near) + b * near_stride,
                               static_cast<const BFloat16*>(far) + b * kStride,
                               static_cast<std::size_t>(elements) * 2) == 0;
    return all;
  };

  SECTION("norms") {
    const ::Floats gains(kRow, 1);
    std::vector<BFloat16> gain(gains.begin(), gains.end());
    const EmulatedMemory x[] = {spread(1, 3 * kRow), spread(3, kRow)},
                         y[] = {spread(1, 3 * kRow), spread(3, kRow)},
                         added[] = {spread(1, 3 * kRow), spread(3, kRow)},
                         sums[] = {memory_of(2 * kRow * 4), memory_of(2 * kRow * 4)};
    float mean[3], rstd[3];
    CudaStreamState stream;
    for (const bool is_far : {false, true}) {
      const std::int64_t stride = is_far ? kStride : kRow;
      set(x[is_far].get(), stride, kRow);
      const HeadRows<const void> from{x[is_far].get(), stride, 0};
      const HeadRows<void> to{y[is_far].get(), stride, 0};
      cuda::norm_fwd(
          {from, {}, {}, to, gain.data(), gain.data(), DType::kBF16, mean, rstd, 3, 1, kRow, 1e-5f},
          stream);
      const HeadRows<void> sum_to{added[is_far].get(), stride, 0};
      cuda::norm_fwd({from,
                      {to.data, stride, 0},
                      sum_to,
                      to,
                      gain.data(),
                      gain.data(),
                      DType::kBF16,
                      mean,
                      rstd,
                      3,
                      1,
                      kRow,
                      1e-5f},
                     stream);
      auto* const sum = static_cast<float*>(sums[is_far].get());
      cuda::norm_bwd({{to.data, stride, 0},
                      from,
                      to,
                      gain.data(),
                      DType::kBF16,
                      mean,
                      rstd,
                      sum,
                      sum + kRow,
                      3,
                      1,
                      kRow,
                      true},
                     stream);
    }
    CHECK(same(y[0].get(), kRow, y[1].get(), kRow));
    CHECK(same(added[0].get(), kRow, added[1].get(), kRow));
    CHECK(std::memcmp(sums[0].get(), sums[1].get(), 2 * kRow * 4) == 0);
  }

  SECTION("biases and their gradients") {
    const ::Floats ones(kRow, 1);
    const std::vector<BFloat16> bias(ones.begin(), ones.end());
    const EmulatedMemory y[] = {spread(1, 3 * kRow), spread(3, kRow)},
                         sums[] = {memory_of(kRow * 4), memory_of(kRow * 4)};
    CudaStreamState stream;
    for (const bool is_far : {false, true}) {
      const std::int64_t stride = is_far ? kStride : kRow;
      set(y[is_far].get(), stride, kRow);
      cuda::add_bias({y[is_far].get(), bias.data(), DType::kBF16, 3, kRow, stride}, stream);
      cuda::add_column_sums(
          {y[is_far].get(), DType::kBF16, static_cast<float*>(sums[is_far].get()), 3, kRow, stride},
          stream);
    }
    CHECK(same(y[0].get(), kRow, y[1].get(), kRow));
    CHECK(std::memcmp(sums[0].get(), sums[1].get(), kRow * 4) == 0);
  }

  SECTION("attention and rotary positions") {
    constexpr std::int64_t kSample = kLength * kRow;
    const auto both = [&](std::int64_t elements) {
      return std::array{spread(1, 3 * elements), spread(3, elements)};
    };
    const auto qkv = both(kSample), d_qkv = both(kSample), out = both(kSample);
    const ::Floats angles = random_floats(kLength * kWidth / 2, 2);
    float lse[3 * kHeads * kLength];
    CudaStreamState stream;
    for (const bool is_far : {false, true}) {
      const std::int64_t stride = is_far ? kStride : kSample;
      set(qkv[is_far].get(), stride, kSample);
      const auto part = [&]<class Void>(const EmulatedMemory& memory, int third, Void*) {
        return Heads<Void>{static_cast<BFloat16*>(memory.get()) + third * kHeads * kWidth, stride,
                           kRow, kWidth};
      };
      const auto read = [&](const EmulatedMemory& memory, int third) {
        return part(memory, third, static_cast<const void*>(nullptr));
      };
      const auto written = [&](const EmulatedMemory& memory, int third) {
        return part(memory, third, static_cast<void*>(nullptr));
      };
      const SampleRows tokens{.length = kLength};
      cuda::rope({written(qkv[is_far], 0), DType::kBF16, angles.data(), angles.data(), nullptr, 3,
                  kLength, kLength, kHeads, kWidth, 1},
                 stream);
      cuda::attention_fwd({read(qkv[is_far], 0),
                           read(qkv[is_far], 1),
                           read(qkv[is_far], 2),
                           written(out[is_far], 0),
                           DType::kBF16,
                           nullptr,
                           lse,
                           3,
                           kLength,
                           kLength,
                           kHeads,
                           kHeads,
                           kWidth,
                           0,
                           0.125f,
                           {},
                           0,
                           tokens},
                          stream);
      cuda::attention_bwd({read(out[is_far], 0),
                           read(qkv[is_far], 0),
                           read(qkv[is_far], 1),
                           read(qkv[is_far], 2),
                           read(out[is_far], 0),
                           written(d_qkv[is_far], 0),
                           written(d_qkv[is_far], 1),
                           written(d_qkv[is_far], 2),
                           DType::kBF16,
                           nullptr,
                           lse,
                           3,
                           kLength,
                           kLength,
                           kHeads,
                           kHeads,
                           kWidth,
                           0,
                           0.125f,
                           {},
                           0,
                           tokens},
                          stream);
    }
    for (const auto* results : {&qkv, &out, &d_qkv})
      CHECK(same((*results)[0].get(), kSample, (*results)[1].get(), kSample));
  }
}

TEST_CASE("passes over pieces and parts reach elements beyond 2^31") {
  constexpr std::int64_t kCount = 256;
  const Twice p(DType::kF32, kCount), g(DType::kF32, kCount), m(DType::kF32, kCount),
      v(DType::kF32, kCount), w(DType::kBF16, kCount), average(DType::kF32, kCount);
  std::fill_n(v.near<float>(), kCount, 0.5f);
  std::fill_n(static_cast<float*>(v.last()), kCount, 0.5f);
  Update update{};
  update.lr = 0.1f, update.beta1 = update.beta2 = 0.5f;
  update.one_minus_beta1 = update.one_minus_beta2 = 0.5f;
  update.inverse_bc1 = update.inverse_sqrt_bc2 = update.eps = update.gradient_factor = 1;
  double squares[2] = {}, norms[2][2] = {};
  const std::int64_t first_pieces[] = {0, 1};
  run_both([&](auto at, CudaStreamState& stream) {
    constexpr bool kIsFar = decltype(at)::kIsFar;
    const auto values = [&](const Twice& x, DType type = DType::kF32) {
      return FlatValues{at(x), type, false};
    };
    const std::int64_t first = kIsFar ? p.before : 0;
    FlatPiece piece{first, first + kCount, first, first, 0, 0, 1};
    piece.origin = first;
    const FlatValues weights = values(w, DType::kBF16);
    cuda::squares_of_pieces({values(g), &piece, 1, &squares[kIsFar]}, stream);
    cuda::update_elements({UpdateRule::kAdamW, values(p), values(g), values(m), values(v), weights,
                           &piece, 1, &update},
                          stream);
    const UpdateLambArgs lamb{values(p), values(g),     values(m), values(v),    weights, &piece,
                              1,         norms[kIsFar], 1,         first_pieces, 1,       0.01f,
                              10,        false,         &update};
    cuda::prepare_lamb(lamb, stream);
    cuda::update_lamb(lamb, stream);
    cuda::update_average({values(average), values(p), &piece, 1, 0.5f, 0.5f, &update}, stream);
  });
  for (const Twice* x : {&p, &m, &v, &w, &average}) CHECK(x->is_same());
  CHECK(squares[0] > 0);
  CHECK(squares[0] == squares[1]);
  CHECK(norms[0][1] == norms[1][1]);

  const Twice sums(DType::kBF16, kCount), received(DType::kBF16, kCount);
  run_both([&](auto at, CudaStreamState& stream) {
    const std::int64_t first = decltype(at)::kIsFar ? sums.before : 0;
    const OwnedRange parts[] = {{{first, first + kCount}, 0}};
    add_received({at(sums), received.near(), DType::kBF16, 0, 2}, parts, stream);
  });
  CHECK(sums.is_same());
}
