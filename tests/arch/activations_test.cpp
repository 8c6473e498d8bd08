#include "hgtrain/arch/activations.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

#include "models.h"

using namespace hgt;

TEST_CASE("logits are computed in chunks of bounded size") {
  ModelConfig model = gpt2_124m();
  CHECK(logit_rows(model, 100) == 100);
  CHECK(logit_rows(model, 100000) * model.vocab_size * 4 <= 64 << 20);
  model.vocab_size = 256;
  CHECK(logit_rows(model, 4096) == 4096);
  model.vocab_size = 1 << 30;
  CHECK(logit_rows(model, 4096) == 128);
}

TEST_CASE("activations that overflow are refused") {
  CHECK_THROWS_AS(activations_of(gpt2_124m(), {{std::int64_t{1} << 40, std::int64_t{1} << 40, 1}}),
                  Error);
}
