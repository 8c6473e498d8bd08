#include "hgtrain/infer/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

/// A sampler on the CPU.
struct Sampling {
  explicit Sampling(const SamplingOptions& options) : sampler(options, pool) {}

  std::int32_t pick(std::vector<float> logits, std::int64_t position) {
    return sampler.pick(Tensor(logits.data(), {static_cast<std::int64_t>(logits.size())}),
                        position);
  }
  ThreadPool pool{1};
  Sampler sampler;
};

/// How often each token is drawn in 20000 draws.
std::map<std::int32_t, double> frequencies(const SamplingOptions& options,
                                           const std::vector<float>& logits) {
  constexpr int kDraws = 20000;
  Sampling sampling(options);
  std::map<std::int32_t, double> out;
  for (int i = 0; i < kDraws; ++i) out[sampling.pick(logits, i)] += 1.0 / kDraws;
  return out;
}

const std::vector<float> kLogits{std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

}  // namespace

TEST_CASE("at temperature 0 the likeliest token is taken, and the first one of several") {
  CHECK(Sampling({.temperature = 0}).pick({1, 5, 5, -3}, 0) == 1);
}

TEST_CASE("tokens are drawn by their probability") {
  const auto seen = frequencies({}, kLogits);
  CHECK(seen.at(0) == Approx(0.1).margin(0.01));
  CHECK(seen.at(1) == Approx(0.4).margin(0.01));
  CHECK(seen.at(2) == Approx(0.2).margin(0.01));
  CHECK(seen.at(3) == Approx(0.3).margin(0.01));
}

TEST_CASE("a temperature of a half squares the odds") {
  const auto seen = frequencies({.temperature = 0.5}, kLogits);
  CHECK(seen.at(1) / seen.at(3) == Approx(16.0 / 9.0).margin(0.1));
}

TEST_CASE("top_k keeps the k likeliest, and those that tie with the last of them") {
  const auto two = frequencies({.top_k = 2}, kLogits);
  CHECK(two.size() == 2);
  CHECK(two.at(1) == Approx(4.0 / 7.0).margin(0.01));
  CHECK(two.at(3) == Approx(3.0 / 7.0).margin(0.01));
  CHECK(frequencies({.top_k = 2}, {1, 0, 0, -1}).size() == 3);
  CHECK(frequencies({.top_k = 100}, kLogits).size() == 4);
}

TEST_CASE("top_p keeps the smallest set that reaches the probability, after top_k") {
  CHECK(frequencies({.top_p = 0.65}, kLogits).size() == 2);
  CHECK(frequencies({.top_p = 0.75}, kLogits).size() == 3);
  CHECK(frequencies({.top_p = 1e-9}, kLogits).size() == 1);
  CHECK(frequencies({.top_k = 2, .top_p = 0.5}, kLogits).size() == 1);  // 4/7 reaches it
}

TEST_CASE("a draw depends on seed and position alone") {
  Sampling a({.seed = 7}), b({.seed = 7}), other({.seed = 8});
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const std::int32_t drawn = a.pick(kLogits, i);
    CHECK(drawn == b.pick(kLogits, i));
    same += drawn == other.pick(kLogits, i);
  }
  CHECK(same < 60);
}

TEST_CASE("a token with logit minus infinity is never drawn; NaN and infinity are errors") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(frequencies({}, {-inf, 0, -inf, 0}).size() == 2);
  for (const float bad : {inf, std::nanf("")})
    CHECK_THROWS_WITH(Sampling({}).pick({0, bad}, 0), Catch::Contains("not finite"));
  CHECK_THROWS_WITH(Sampling({}).pick({-inf, -inf}, 0), Catch::Contains("not finite"));
}

TEST_CASE("options out of range are refused") {
  const auto refused = [](const SamplingOptions& options) {
    try {
      check(options);
    } catch (const Error& e) {
      return e.exit_code() == 2;
    }
    return false;
  };
  CHECK(refused({.temperature = -1}));
  CHECK(refused({.temperature = std::nan("")}));
  CHECK(refused({.temperature = std::numeric_limits<double>::infinity()}));
  CHECK(refused({.top_k = -1}));
  CHECK(refused({.top_p = 0}));
  CHECK(refused({.top_p = 1.5}));
  CHECK_FALSE(refused({.temperature = 0, .top_k = 5, .top_p = 1}));
}
