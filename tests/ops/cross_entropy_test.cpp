#include "hgtrain/ops/cross_entropy.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace cross_entropy_test {
namespace {

constexpr std::int64_t kRows = 6, kVocabulary = 19;

Doubles losses_of(const Doubles& logits, const std::vector<std::int32_t>& targets) {
  Doubles out;
  for (std::size_t n = 0; n < kRows; ++n) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(n * kVocabulary);
    const double highest = *std::max_element(row, row + kVocabulary);
    double sum = 0;
    for (auto v = row; v != row + kVocabulary; ++v) sum += std::exp(*v - highest);
    out.push_back(targets[n] == kIgnoredTarget ? 0 : std::log(sum) + highest - row[targets[n]]);
  }
  return out;
}

/// A rank's columns of the logits, padded with numbers that must not matter.
Floats columns_of(const Floats& logits, std::int64_t first, std::int64_t width) {
  Floats out(static_cast<std::size_t>(kRows * width), 1e9f);
  for (std::int64_t n = 0; n < kRows; ++n)
    for (std::int64_t v = 0; v < std::min(width, kVocabulary - first); ++v)
      out[n * width + v] = logits[n * kVocabulary + first + v];
  return out;
}

struct Case {
  Floats logits = random_floats(kRows * kVocabulary, 1, 4), losses = Floats(kRows, 9.0f);
  std::vector<std::int32_t> targets{0, 18, kIgnoredTarget, 7, 7, 3};
  Tensor logits_NV() { return tensor(logits, {kRows, kVocabulary}); }
  Tensor targets_N() { return Tensor(targets.data(), {kRows}, DType::kI32); }
  Tensor losses_N() { return tensor(losses, {kRows}); }
};

}  // namespace

TEST_CASE("cross-entropy and its gradient, in place, ignored targets included") {
  Case c;
  const Doubles logits = doubles(c.logits), expected = losses_of(logits, c.targets);
  ThreadPool pool(2);
  cross_entropy_fwd_bwd(c.logits_NV(), c.targets_N(), 0.25f, c.losses_N(), Stream(pool));
  CHECK(error_of(c.losses, expected) < 1e-6);
  CHECK(
      error_of(c.logits, numeric_gradient([&](const Doubles& v) { return losses_of(v, c.targets); },
                                          logits, Floats(kRows, 0.25f))) < 1e-6);

  Case forward;
  cross_entropy_fwd(forward.logits_NV(), forward.targets_N(), forward.losses_N(), Stream(pool));
  CHECK(forward.losses == c.losses);
}

TEST_CASE("cross-entropy in parts of the vocabulary is that of all, and padding gets no gradient") {
  ThreadPool pool(2);
  for (const std::int64_t ranks : {1, 2, 3, 7, 24}) {
    Case whole;
    const Floats logits = whole.logits;
    cross_entropy_fwd_bwd(whole.logits_NV(), whole.targets_N(), 0.25f, whole.losses_N(), pool);
    const std::int64_t width = (kVocabulary + ranks - 1) / ranks;
    Floats parts(static_cast<std::size_t>(ranks * kRows * 3));
    const Tensor parts_RN3 = tensor(parts, {ranks, kRows, 3});
    const auto part_of = [&](std::int64_t rank) {
      return VocabularyPart{std::min(rank * width, kVocabulary), kVocabulary};
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Floats own = columns_of(logits, part_of(rank).first, width);
      cross_entropy_part(tensor(own, {kRows, width}), whole.targets_N(), part_of(rank),
                         parts_RN3.slice(0, rank, rank + 1).reshaped({kRows, 3}), pool);
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (const bool backward : {false, true}) {
        const std::int64_t first = part_of(rank).first;
        Floats own = columns_of(logits, first, width), losses(kRows);
        const float scale = 0.25f;
        cross_entropy_finish(tensor(own, {kRows, width}), whole.targets_N(), part_of(rank),
                             parts_RN3, backward ? &scale : nullptr, tensor(losses, {kRows}), pool);
        INFO("rank " << rank << " of " << ranks);
        CHECK(error_of(losses, doubles(whole.losses)) < 1e-6);
        if (!backward) continue;
        Floats expected = columns_of(whole.logits, first, width);
        std::replace(expected.begin(), expected.end(), 1e9f, 0.0f);
        CHECK(error_of(own, doubles(expected)) < 1e-6);
      }
  }
}

TEST_CASE("padding behind the vocabulary changes no loss, and its gradient is zero") {
  for (const std::int64_t width : {kVocabulary + 1, kVocabulary + 13}) {
    Case whole;
    Floats padded = columns_of(whole.logits, 0, width), losses(kRows);
    ThreadPool pool(2);
    const Tensor logits = tensor(padded, {kRows, width});
    cross_entropy_fwd(tensor(padded, {kRows, width}), whole.targets_N(), tensor(losses, {kRows}),
                      pool, kVocabulary);
    cross_entropy_fwd_bwd(whole.logits_NV(), whole.targets_N(), 0.25f, whole.losses_N(), pool);
    CHECK(losses == whole.losses);
    cross_entropy_fwd_bwd(logits, whole.targets_N(), 0.25f, tensor(losses, {kRows}), pool,
                          kVocabulary);
    CHECK(losses == whole.losses);
    for (std::int64_t n = 0; n < kRows; ++n)
      for (std::int64_t v = 0; v < width; ++v)
        CHECK(padded[n * width + v] ==
              (v < kVocabulary ? whole.logits[n * kVocabulary + v] : 0.0f));
    CHECK_THROWS_AS(
        cross_entropy_fwd(logits, whole.targets_N(), tensor(losses, {kRows}), pool, width + 1),
        Error);
  }
}

TEST_CASE("cross-entropy of huge logits is finite, of NaN is NaN") {
  Case c;
  for (float& v : c.logits) v = v * 1e4f + 1e30f * (v > 0);
  c.logits[3 * kVocabulary] = NAN;
  ThreadPool pool(1);
  cross_entropy_fwd_bwd(c.logits_NV(), c.targets_N(), 1, c.losses_N(), Stream(pool));
  for (std::size_t n = 0; n < kRows; ++n) CHECK(std::isnan(c.losses[n]) == (n == 3));
}

TEST_CASE("a target outside the vocabulary is named") {
  for (const std::int32_t bad : {-1, 19, 1 << 30}) {
    Case c;
    c.targets[4] = bad;
    ThreadPool pool(1);
    try {
      cross_entropy_fwd(c.logits_NV(), c.targets_N(), c.losses_N(), Stream(pool));
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kData);
      CHECK(e.message() == "target " + std::to_string(bad) + " is outside the vocabulary of 19");
    }
  }
}

TEST_CASE("CUDA: cross-entropy equals the CPU's", "[cross_entropy]") {
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

TEST_CASE("CUDA: cross-entropy of a padded vocabulary equals the CPU's", "[cross_entropy]") {
  for (const DType type : kTypes)
    for (const auto& [vocabulary, width] :
         {std::pair{67, 128}, {3, 13}, {700, 701}, {2041, 2048}, {513, 640}, {50257, 50304}}) {
      const std::int64_t rows = vocabulary > 5000 ? 2 : 9, columns = vocabulary;
      compare(
          {normal({rows, width}, 1, 4, type), normal({rows, width}, 2, 4, type),
           integers({rows}, vocabulary, kIgnoredTarget), normal({rows}, 3), normal({rows}, 4)},
          [columns](const std::vector<Tensor>& x, Stream stream) {
            cross_entropy_fwd_bwd(x[0], x[2], 0.3f, x[3], stream, columns);
            cross_entropy_fwd(x[1], x[2], x[4], stream, columns);
            stream.copy(x[1].raw(), x[0].raw(), x[0].bytes());  // it is undefined
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("CUDA: cross-entropy in parts of the vocabulary equals the CPU's", "[cross_entropy]") {
  Floats parts = random_floats(2 * 9 * 3, 2);  // of two ranks
  for (std::size_t i = 0; i < parts.size(); i += 3) {
    parts[i] += 20;  // no logit is larger
    parts[i + 1] = std::abs(parts[i + 1]) + 1;
  }
  for (const DType type : kTypes)
    for (const std::int64_t first : {0, 700, 1400}) {  // of 2000: whole, whole, cut
      const std::int64_t width = 700;
      compare(
          {normal({9, width}, 1, 4, type), integers({9}, 2000, kIgnoredTarget),
           floats(parts, {2, 9, 3}), normal({9, 3}, 3), normal({9}, 4),
           normal({9, width}, 1, 4, type), normal({9}, 4)},
          [=](const std::vector<Tensor>& x, Stream stream) {
            const VocabularyPart part{first, 2000};
            const float scale = 0.3f;
            cross_entropy_part(x[0], x[1], part, x[3], stream);
            cross_entropy_finish(x[0], x[1], part, x[2], &scale, x[4], stream);
            cross_entropy_finish(x[5], x[1], part, x[2], nullptr, x[6], stream);
          },
          tolerance_of(type, 2e-5));
    }
}

TEST_CASE("CUDA: cross-entropy of targets that other ranks have equals the CPU's",
          "[cross_entropy]") {
  const std::vector<std::int32_t> targets = {0, 55, 56, 99, kIgnoredTarget, 70, 30};
  compare(
      {normal({7, 56}, 1, 2), normal({7, 56}, 2, 2),
       stored<std::int32_t>(targets, {7}, DType::kI32), normal({2, 7, 3}, 3), normal({7}, 4),
       normal({7}, 5)},
      [](const std::vector<Tensor>& x, Stream stream) {
        const float scale = 0.3f;
        for (const int rank : {0, 1})
          cross_entropy_part(x[rank], x[2], {rank * 56, 100},
                             x[3].slice(0, rank, rank + 1).reshaped({7, 3}), stream);
        for (const int rank : {0, 1})
          cross_entropy_finish(x[rank], x[2], {rank * 56, 100}, x[3], &scale, x[4 + rank], stream);
      },
      2e-5);
}

TEST_CASE("CUDA: cross-entropy of a rank without any of the vocabulary", "[cross_entropy]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  const Floats parts = {1, 1, 0.5f, -INFINITY, 0, 0};  // of two ranks; this is the second
  const float scale = 0.3f;
  const auto results =
      run_on_device(queue,
                    {normal({1, 700}, 1), integers({1}, 700, 0), floats(parts, {2, 1, 3}),
                     normal({1, 3}, 3), normal({1}, 4)},
                    [&](const std::vector<Tensor>& x, Stream stream) {
                      const VocabularyPart part{2000, 2000};
                      cross_entropy_part(x[0], x[1], part, x[3], stream);
                      cross_entropy_finish(x[0], x[1], part, x[2], &scale, x[4], stream);
                    });
  CHECK(results[3].floats() == Floats{-INFINITY, 0, 0});
  CHECK(results[4].floats()[0] == 0.5f);
  CHECK(results[0].floats() == Floats(700, 0.0f));
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

TEST_CASE("CUDA: cross-entropy of logits far from zero and from each other equals the CPU's",
          "[cross_entropy]") {
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

TEST_CASE("CUDA: the loss and gradients of a target that is not there are NaN", "[cross_entropy]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  for (const std::int32_t bad : {-1, -(1 << 30), 700, 1 << 30}) {
    const auto results =
        run_on_device(queue, {normal({9, 700}, 1), integers({9}, 700, bad), normal({9}, 2)},
                      [](const std::vector<Tensor>& x, Stream stream) {
                        cross_entropy_fwd_bwd(x[0], x[1], 1, x[2], stream);
                      });
    for (std::size_t row = 0; row < 9; ++row) {
      INFO("row " << row);
      CHECK(std::isnan(results[2].floats()[row]) == (row == 3));  // the bad target
      CHECK(std::isnan(results[0].floats()[row * 700 + 699]) == (row == 3));
    }
  }
}

}  // namespace cross_entropy_test
