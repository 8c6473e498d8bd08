#include "hgtrain/infer/generate.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// A model of ten tokens that is sure of the successor of the last one, and notes what it is fed.
struct Successor {
  std::vector<float> logits = std::vector<float>(10);
  std::vector<std::vector<std::int32_t>> fed;
  std::span<const float> operator()(std::span<const std::int32_t> tokens) {
    fed.emplace_back(tokens.begin(), tokens.end());
    logits.assign(10, 0.0f);
    logits[static_cast<std::size_t>((tokens.back() + 1) % 10)] = 1.0f;
    return logits;
  }
};

struct Outcome {
  std::vector<std::int32_t> tokens;
  StopReason reason;
};

Outcome run(Successor& model, const std::vector<std::int32_t>& prompt,
            const GenerateLimits& limits) {
  Sampler greedy({.temperature = 0});
  Outcome out{};
  out.reason = generate(std::ref(model), prompt, greedy, limits,
                        [&](std::int32_t token) { out.tokens.push_back(token); });
  return out;
}

}  // namespace

TEST_CASE("the prompt is read once, then each new token by itself") {
  Successor model;
  const Outcome out = run(model, {3, 4}, {.max_tokens = 3, .context_length = 100, .end_ids = {}});
  CHECK(out.tokens == std::vector<std::int32_t>{5, 6, 7});
  CHECK(name_of(out.reason) == "max_tokens");
  CHECK(model.fed == std::vector<std::vector<std::int32_t>>{{3, 4}, {5}, {6}});
}

TEST_CASE("an end token ends the text and is not part of it") {
  Successor model;
  const Outcome out = run(model, {7}, {.max_tokens = 50, .context_length = 100, .end_ids = {2, 9}});
  CHECK(out.tokens == std::vector<std::int32_t>{8});
  CHECK(name_of(out.reason) == "end_of_text");
}

TEST_CASE("the text ends where the context is full") {
  Successor model;
  const Outcome out = run(model, {0, 1}, {.max_tokens = 50, .context_length = 5, .end_ids = {}});
  CHECK(out.tokens == std::vector<std::int32_t>{2, 3, 4});
  CHECK(name_of(out.reason) == "context_full");
  CHECK_THROWS_WITH(run(model, {0, 1}, {.max_tokens = 1, .context_length = 2, .end_ids = {}}),
                    Catch::Contains("the prompt has 2 tokens"));
}
