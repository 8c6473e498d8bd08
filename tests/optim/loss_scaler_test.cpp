#include "hgtrain/optim/loss_scaler.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

PrecisionConfig dynamic(std::int64_t power, std::int64_t window, std::int64_t hysteresis) {
  PrecisionConfig config;
  config.fp16 = true;
  config.initial_scale_power = power;
  config.loss_scale_window = window;
  config.hysteresis = hysteresis;
  return config;
}

/// The scale after each step: c is a clean one, x an overflow.
std::vector<double> scales(const PrecisionConfig& config, const std::string& steps) {
  const LossScaler scaler(config);
  LossScale state = scaler.initial();
  std::vector<double> out;
  for (const char step : steps) {
    scaler.update(step == 'o', state);
    out.push_back(state.scale);
  }
  return out;
}

using Scales = std::vector<double>;

}  // namespace

// The expected numbers were printed by DeepSpeed's DynamicLossScaler.
TEST_CASE("a dynamic loss scale grows and shrinks as DeepSpeed's") {
  CHECK(scales(dynamic(8, 2, 2), "cccccccccc") ==
        Scales{256, 256, 512, 512, 1024, 1024, 2048, 2048, 4096, 4096});
  CHECK(scales(dynamic(8, 2, 2), "ooccco") == Scales{256, 128, 128, 128, 256, 256});
  CHECK(scales(dynamic(8, 2, 1), "ooccco") == Scales{128, 64, 64, 64, 128, 64});
  CHECK(scales(dynamic(16, 1000, 2), "ocococo") ==
        Scales{65536, 65536, 32768, 32768, 16384, 16384, 8192});
}

TEST_CASE("with consecutive_hysteresis a clean step resets the hysteresis") {
  PrecisionConfig config = dynamic(16, 1000, 2);
  config.consecutive_hysteresis = true;
  CHECK(scales(config, "ocococoo") ==
        Scales{65536, 65536, 65536, 65536, 65536, 65536, 65536, 32768});
}

TEST_CASE("an overflow at the lowest scale ends the run") {
  CHECK(scales(dynamic(2, 2, 2), "ooo") == Scales{4, 2, 1});
  try {
    scales(dynamic(2, 2, 2), "oooo");
    FAIL("went on");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kCheck);
    CHECK(e.message() == "gradients overflow fp16 at the lowest loss scale, 1");
  }
}

TEST_CASE("a static scale and that of other dtypes never change") {
  PrecisionConfig fixed = dynamic(16, 1, 1);
  fixed.loss_scale = 128;
  CHECK(scales(fixed, "occco") == Scales{128, 128, 128, 128, 128});
  CHECK(scales({}, "cc") == Scales{1, 1});
}

TEST_CASE(
    "a scale continues from a checkpoint of the same precision, and starts anew from another") {
  const LossScaler half(dynamic(8, 2, 2));
  const LossScale saved{512, 7, 3, 1};
  CHECK(half.resumed(saved, DType::kF16, true) == saved);
  for (const DType other : {DType::kF32, DType::kBF16})
    CHECK(half.resumed({.scale = 1, .steps = 7}, other, true) == half.initial());
  CHECK(LossScaler({}).resumed(saved, DType::kF16, true) == LossScale{});
  PrecisionConfig fixed = dynamic(16, 1, 1);
  fixed.loss_scale = 128;
  for (const bool has_updated : {false, true})
    CHECK(LossScaler(fixed).resumed(saved, DType::kF16, has_updated) == LossScale{128, 7, 3, 1});
}

TEST_CASE("a lower first scale than the saved one takes effect until a step was not skipped") {
  const LossScale saved{512, 7, 6, 1};
  CHECK(LossScaler(dynamic(4, 2, 2)).resumed(saved, DType::kF16, false).scale == 16);
  CHECK(LossScaler(dynamic(4, 2, 2)).resumed(saved, DType::kF16, true).scale == 512);
  CHECK(LossScaler(dynamic(20, 2, 2)).resumed(saved, DType::kF16, false).scale == 512);
}

TEST_CASE("a scale stops growing at 2^31") {
  CHECK(scales(dynamic(30, 1, 1), "cccc").back() == 2147483648.0);
}

TEST_CASE("a scale from 2^32 backs off, and one without a floor stays above 0") {
  CHECK(scales(dynamic(32, 1000, 1), "oo") == Scales{2147483648.0, 1073741824.0});
  PrecisionConfig config = dynamic(0, 1000, 1);
  config.min_loss_scale = 0;
  CHECK(scales(config, std::string(126, 'o')).back() == 0x1p-126);
  CHECK_THROWS_AS(scales(config, std::string(127, 'o')), Error);
}

TEST_CASE("the hint about overflows names the scale that the config has") {
  PrecisionConfig config = dynamic(16, 1, 1);
  CHECK(LossScaler(config).overflow_hint().starts_with("lower fp16.initial_scale_power"));
  config.initial_scale_power = 60;
  CHECK(LossScaler(config).overflow_hint().starts_with("set fp16.initial_scale_power to 16"));
  config.loss_scale = 128;
  CHECK(LossScaler(config).overflow_hint().starts_with("lower fp16.loss_scale"));
}
