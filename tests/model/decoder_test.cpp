#include "hgtrain/model/decoder.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/device/thread_pool.h"

#include "golden.h"

using namespace hgt;

namespace {

struct Setup {
  explicit Setup(const std::string& name, std::int64_t max_length) : golden(name) {
    golden.model.max_position_embeddings = 1000;
    table = parameter_table(golden.model, false);
    parameters = golden.parameters(table);
    decoder = Decoder::create(golden.model, table, flat_tensor(parameters), max_length, pool);
  }
  Golden golden;
  ParameterTable table;
  ThreadPool pool{2};
  std::vector<float> parameters;
  std::unique_ptr<Decoder> decoder;
};

std::vector<std::int32_t> tokens(std::int64_t count) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(i * i % 61));
  return out;
}

}  // namespace

TEST_CASE("a long prompt at once or in pieces gives the same logits") {
  for (const std::string name : {"gpt2", "mistral", "qwen3"}) {
    Setup whole(name, 600), pieces(name, 600);
    const auto prompt = tokens(600);
    const auto logits = whole.decoder->append(prompt);
    CHECK(whole.decoder->length() == 600);
    std::span<const float> last;
    for (std::size_t at = 0; at < 600; at += 60)
      last = pieces.decoder->append(std::span(prompt).subspan(at, 60));
    INFO(name);
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(logits[i]) - last[i]));
      largest = std::max(largest, std::abs(static_cast<double>(logits[i])));
    }
    CHECK(difference < 1e-5 * largest);
  }
}

TEST_CASE("a refused append leaves the sequence as it was") {
  Setup s("llama", 10);
  s.decoder->append(tokens(4));
  CHECK_THROWS_WITH(s.decoder->append(tokens(7)),
                    "7 tokens after 4 exceed the longest sequence of 10");
  const std::vector<std::int32_t> bad{1, 67};
  CHECK_THROWS_WITH(s.decoder->append(bad), "token 67 is outside the vocabulary of 67");
  CHECK_THROWS_AS(s.decoder->append({}), Error);
  CHECK_THROWS_AS(s.decoder->truncate(5), Error);
  CHECK(s.decoder->length() == 4);
  CHECK_NOTHROW(s.decoder->append(tokens(6)));
}

TEST_CASE("a decoder without positions for its sequence is refused") {
  CHECK_THROWS_AS(Setup("gpt2", 1001), Error);
  CHECK_NOTHROW(Setup("llama", 1001));
  CHECK_THROWS_AS(Setup("llama", 0), Error);
}
