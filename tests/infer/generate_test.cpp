#include "hgtrain/infer/generate.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/model/decoder.h"

#include "model/golden.h"

using namespace hgt;

namespace {

/// A model of ten tokens that is sure of the successor of the last one, and notes what it is fed.
struct Successor {
  std::vector<float> logits = std::vector<float>(10);
  std::vector<std::vector<std::int32_t>> fed;
  Tensor operator()(std::span<const std::int32_t> tokens) {
    fed.emplace_back(tokens.begin(), tokens.end());
    logits.assign(10, 0.0f);
    logits[static_cast<std::size_t>((tokens.back() + 1) % 10)] = 1.0f;
    return Tensor(logits.data(), {10});
  }
};

struct Outcome {
  std::vector<std::int32_t> tokens;
  StopReason reason;
};

Outcome run(Successor& model, const std::vector<std::int32_t>& prompt,
            const GenerateLimits& limits) {
  ThreadPool pool(1);
  Sampler greedy({.temperature = 0}, pool);
  Outcome out{};
  out.reason = generate(std::ref(model), prompt, greedy, limits,
                        [&](std::int32_t token) { out.tokens.push_back(token); });
  return out;
}

}  // namespace

TEST_CASE("the prompt is read once, then one new token at a time") {
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

TEST_CASE("the text ends when the context is full") {
  Successor model;
  const Outcome out = run(model, {0, 1}, {.max_tokens = 50, .context_length = 5, .end_ids = {}});
  CHECK(out.tokens == std::vector<std::int32_t>{2, 3, 4});
  CHECK(name_of(out.reason) == "context_full");
  CHECK_THROWS_WITH(run(model, {0, 1}, {.max_tokens = 1, .context_length = 2, .end_ids = {}}),
                    Catch::Contains("the prompt has 2 tokens"));
}

TEST_CASE("the greedy continuation is that of transformers, for every family") {
  ThreadPool pool(2);
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    const ParameterTable table = parameter_table(golden.model, false);
    std::vector<float> parameters = golden.parameters(table);
    const auto decoder = Decoder::create(golden.model, table, flat_tensor(parameters), 24, pool);
    Sampler sampler({.temperature = 0}, pool);
    std::vector<std::int32_t> tokens;
    generate([&](auto fresh) { return decoder->append(fresh); }, golden.prompt, sampler,
             {.max_tokens = 12, .context_length = 24, .end_ids = {}},
             [&](std::int32_t token) { tokens.push_back(token); });
    CAPTURE(name);
    CHECK(tokens == golden.continuation);
  }
}
