#include "hgtrain/ops/dropout.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/philox.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace dropout_test {
namespace {

constexpr std::int64_t kBatch = 3, kElements = 5003;

struct Draw {
  float probability;
  std::uint64_t seed;
  std::int64_t step, first_sample;
  std::uint64_t site;
};

Floats dropped(const Draw& draw, std::int64_t batch, int threads) {
  const SampleKey samples{draw.step, draw.first_sample};
  const Dropout options{draw.probability, draw.seed, &samples, draw.site};
  Floats x(static_cast<std::size_t>(batch * kElements), 1.0f);
  ThreadPool pool(threads);
  dropout(tensor(x, {batch, kElements}), options, tensor(x, {batch, kElements}), Stream(pool));
  return x;
}

}  // namespace

TEST_CASE("dropout keeps as many elements as asked, scaled to the same mean") {
  for (const float p : {0.1f, 0.5f}) {
    const Floats y = dropped({p, 1, 2, 3, 4}, kBatch, 2);
    double kept = 0;
    for (const float v : y) {
      CHECK((v == 0 || v == 1 / (1 - p)));
      kept += v != 0;
    }
    CHECK(kept / static_cast<double>(y.size()) == Approx(1 - static_cast<double>(p)).margin(0.02));
  }
}

TEST_CASE("no split of the batch or the threads changes what is dropped") {
  const Floats whole = dropped({0.3f, 7, 11, 20, 5}, kBatch, 3);
  Floats parts;
  for (std::int64_t sample = 20; sample < 20 + kBatch; ++sample) {
    const Floats part = dropped({0.3f, 7, 11, sample, 5}, 1, 1);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  CHECK(whole == parts);
}

TEST_CASE("a rank with a part of the tokens drops what one rank drops of them") {
  constexpr std::int64_t kTokens = 12, kWidth = 7;
  const SampleKey samples{3, 40};
  const Floats whole = [&] {
    Floats x(kBatch * kTokens * kWidth, 1.0f);
    const Tensor rows = tensor(x, {kBatch * kTokens, kWidth});
    ThreadPool pool(2);
    dropout(rows, {0.4f, 5, &samples, 2, {.length = kTokens}}, rows, Stream(pool));
    return x;
  }();
  for (const SampleRows& of_sample : {SampleRows{kTokens, 1, {0, 0}}, SampleRows{6, 1, {3, 0}},
                                      SampleRows{6, 2, {0, 9}}, SampleRows{4, 2, {5, 8}}})
    for (const std::int64_t first : {0, 1, 5, 9}) {
      SampleRows rows = of_sample;
      rows.first = first;
      const std::int64_t count = kBatch * rows.length - first - 1;
      Floats x(static_cast<std::size_t>(count * kWidth), 1.0f);
      ThreadPool pool(3);
      dropout(tensor(x, {count, kWidth}), {0.4f, 5, &samples, 2, rows}, tensor(x, {count, kWidth}),
              Stream(pool));
      for (std::int64_t row = 0; row < count; ++row) {
        const std::int64_t at = first + row, run = at / rows.run_length();
        const std::int64_t token = rows.token(at % rows.length);
        CHECK(token == rows.begin_of(run) + at % rows.run_length());
        const std::int64_t same = rows.sample_of(run) * kTokens + token;
        CHECK(std::equal(x.begin() + row * kWidth, x.begin() + (row + 1) * kWidth,
                         whole.begin() + same * kWidth));
      }
    }
}

TEST_CASE("seed, step, sample and site each give other numbers") {
  const Floats base = dropped({0.5f, 1, 1, 1, 1}, 1, 1);
  CHECK(base == dropped({0.5f, 1, 1, 1, 1}, 1, 1));
  CHECK(base != dropped({0.5f, 2, 1, 1, 1}, 1, 1));
  CHECK(base != dropped({0.5f, 1, 2, 1, 1}, 1, 1));
  CHECK(base != dropped({0.5f, 1, 1, 2, 1}, 1, 1));
  CHECK(base != dropped({0.5f, 1, 1, 1, 2}, 1, 1));
}

TEST_CASE("the numbers are those of Philox, keyed as the header says") {
  const Draw options{0.5f, 123456789012345, 4, 5, 6};
  const Floats y = dropped(options, 1, 1);
  const auto derived = philox(options.seed, 4, 5);
  const std::uint64_t key = derived[0] | std::uint64_t{derived[1]} << 32;
  for (std::uint64_t e = 0; e < static_cast<std::uint64_t>(kElements); ++e) {
    const auto words = philox(key, options.site, e / 64 * 16 + e % 16);
    REQUIRE((y[e] != 0) == (uniform01(words[e / 16 % 4]) >= options.probability));
  }
}

TEST_CASE("dropout_add adds the kept part of the branch") {
  Floats x = random_floats(kBatch * kElements, 1), branch = random_floats(kBatch * kElements, 2);
  const Floats kept = dropped({0.25f, 3, 1, 0, 9}, kBatch, 1);
  const SampleKey samples{1, 0};
  const Dropout options{0.25f, 3, &samples, 9};
  Floats y(x.size());
  ThreadPool pool(2);
  const auto view = [](Floats& v) { return tensor(v, {kBatch, kElements}); };
  dropout_add(view(x), view(branch), options, view(y), Stream(pool));
  for (std::size_t i = 0; i < y.size(); ++i)
    REQUIRE(y[i] == Approx(x[i] + branch[i] * kept[i]).margin(1e-6));
  dropout_add(view(x), view(branch), {}, view(y), Stream(pool));
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == x[i] + branch[i]);
}

TEST_CASE("dropout refuses a probability of one, and rows in uneven runs") {
  Floats x(4);
  ThreadPool pool(1);
  CHECK_THROWS_AS(dropout(tensor(x, {4}), {.rows = {3, 2}}, tensor(x, {4}), Stream(pool)), Error);
  CHECK_THROWS_AS(dropout(tensor(x, {4}), {1.0f}, tensor(x, {4}), Stream(pool)), Error);
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

TEST_CASE("CUDA: dropout draws the CPU's numbers for a part of the tokens", "[dropout]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {3, 5, 24, 64})
      for (const SampleRows& rows : {SampleRows{10, 1, {6, 0}, 3}, SampleRows{10, 2, {5, 40}, 0},
                                     SampleRows{10, 2, {3, 8}, 7}, SampleRows{1, 1, {6, 0}, 0}})
        compare(
            {normal({26, width}, 1, 1, type), normal({26, width}, 2, 1, type),
             normal({26, width}, 3, 1, type), normal({26, width}, 4, 1, type), sample_key(5, 17)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              const Dropout options{0.3f, 99, key_in(x[4]), 3, rows};
              dropout_add(x[0], x[1], options, x[2], stream);
              dropout(x[1], options, x[3], stream);
            },
            tolerance_of(type, 1e-6));
}

}  // namespace dropout_test
