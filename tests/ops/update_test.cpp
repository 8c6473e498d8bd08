#include "hgtrain/ops/update.h"

#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

/// The update after prepare_update, from two micro-batches and the gradients' sum of squares.
Update prepared(Update update, double square, double loss = 1) {
  ThreadPool pool(1);
  double losses[2] = {loss, 3};
  prepare_update(Tensor(losses, {2}, DType::kF64), Tensor(&square, {1}, DType::kF64), &update,
                 pool);
  return update;
}

}  // namespace

TEST_CASE("losses are a mean over the tokens, norms without the loss scale") {
  Update update{};
  update.loss_scale = 4;
  update.tokens = 8;
  const Update done = prepared(update, 64);
  CHECK(done.loss == 0.5);
  CHECK(done.norm == 2);
  CHECK(done.gradient_factor == 0.25f);
  CHECK(done.skip == 0);
}

TEST_CASE("gradients are scaled down to the clip and never up") {
  Update update{};
  update.clip = 1;
  CHECK(prepared(update, 100).gradient_factor == Approx(1 / (10 + 1e-6)));
  CHECK(prepared(update, 0.25).gradient_factor == 1);
  update.clip = 0;
  CHECK(prepared(update, 100).gradient_factor == 1);
}

TEST_CASE("a step that is not finite is skipped, and after a halt all that follow are, too") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  CHECK(prepared({}, kNan).skip == 1);
  CHECK(prepared({}, 1, kInfinity).skip == 1);
  for (const int halt : {0, 1}) {
    Update update{};
    update.halt_on_nonfinite = halt;
    CHECK(prepared(prepared(update, kInfinity), 1).skip == halt);
  }
}
