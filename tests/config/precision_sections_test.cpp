#include "loaded.h"

using namespace hgt;

namespace {

std::string fp16(const std::string& keys) {
  return errors(R"({"fp16": {)" + keys + "}}");
}

}  // namespace

TEST_CASE("a dynamic loss scale needs a positive window") {
  const std::string k = R"("loss_scale_window": )";
  for (const char* wrong : {"0", "-1"}) {
    CHECK(contains(fp16(R"("enabled": true, )" + k + wrong), "must be at least 1"));
    CHECK(fp16(R"("enabled": true, "loss_scale": 128, )" + k + wrong) == "");
    CHECK(fp16(k + wrong) == "");
  }
  for (const char* right : {"1", "1000", "2.0"})
    CHECK(fp16(R"("enabled": true, )" + k + right) == "");
  for (const char* never : {"true", "Infinity", "NaN", "\"abc\"", "0.25"})
    CHECK(fp16(k + never) != "");
  CHECK(contains(fp16(R"("enabled": true, "hysteresis": 0)"), "must be at least 1"));
}

TEST_CASE("the loss scale must be a number that fp32 can hold") {
  for (const char* wrong : {"-1", "Infinity", "NaN", "true", "[]", "{}"})
    CHECK(fp16(std::string("\"loss_scale\": ") + wrong) != "");
  for (const char* right : {"0", "1", "2.0", "\"3\""})
    CHECK(fp16(std::string("\"loss_scale\": ") + right) == "");
  CHECK(fp16(R"("initial_scale_power": 16.5)") != "");
  CHECK(fp16(R"("enabled": true, "initial_scale_power": 32)") == "");
  CHECK(contains(fp16(R"("initial_scale_power": 128)"), "must be at most 127"));
}

TEST_CASE("min_loss_scale may be any positive number, or 0 for none") {
  for (const char* right : {"0", "1", "0.25", "1e-10"})
    CHECK(fp16(std::string(R"("enabled": true, "min_loss_scale": )") + right) == "");
  for (const char* wrong : {"-1", "true", "Infinity", "\"abc\""})
    CHECK(fp16(std::string("\"min_loss_scale\": ") + wrong) != "");
}

TEST_CASE("bf16's old name and the keys of old files are understood") {
  const std::string on =
      R"({"bfloat16": {"enabled": true, "loss_scale": 0, "hysteresis": 2, "min_loss_scale": 1}})";
  CHECK(errors(on) == "");
  CHECK(loaded(on).config.precision.compute_dtype() == DType::kBF16);
  const LoadResult both = loaded(R"({"bf16": {"enabled": false}, "bfloat16": {"enabled": true}})");
  CHECK(both.config.precision.compute_dtype() == DType::kF32);
  CHECK(contains(problem_text(both, Severity::kNotice), "bfloat16 is ignored"));
  CHECK(contains(errors(R"({"bf16": {"enable": true}})"), "did you mean enabled?"));
}

TEST_CASE("types of gradients, apex and autocast are checked") {
  CHECK(problem_text(loaded(R"({"data_types": {"grad_accum_dtype": "fp32"}})"),
                     Severity::kNotBuilt) == "");
  CHECK(contains(
      problem_text(loaded(R"({"data_types": {"grad_accum_dtype": "bf16"}})"), Severity::kNotBuilt),
      "grad_accum_dtype = \"bf16\" is not built yet | remove it"));
  CHECK(errors(R"({"data_types": {"grad_accum_dtype": "int8"}})") != "");
  CHECK(problem_text(loaded(R"({"amp": {"enabled": false, "opt_level": "O2", "other": 1}})"),
                     Severity::kNotBuilt) == "");
  CHECK(contains(problem_text(loaded(R"({"amp": {"enabled": true}})"), Severity::kNotBuilt),
                 "amp.enabled = true"));
}

TEST_CASE("autocast next to 16-bit training has no effect, and is not built without it") {
  const auto not_built = [](const char* section) {
    return problem_text(
        loaded(std::string("{\"torch_autocast\": {\"enabled\": true}") + section + "}"),
        Severity::kNotBuilt);
  };
  CHECK(
      contains(not_built(""), "torch_autocast.enabled = true is not built yet | set bf16.enabled"));
  CHECK(not_built(R"(, "bf16": {"enabled": true})") == "");
  CHECK(not_built(R"(, "fp16": {"enabled": true})") == "");
}

TEST_CASE("8-bit training is refused, and false means that a section is off") {
  for (const char* name : {"fp8", "msamp"}) {
    const auto not_built = [&](const char* value) {
      const LoadResult result = loaded(std::string("{\"") + name + "\": " + value + "}");
      CHECK(problem_text(result, Severity::kError) == "");
      return problem_text(result, Severity::kNotBuilt);
    };
    CHECK(contains(not_built(R"({"enabled": true})"), "is not built yet | use bf16.enabled"));
    for (const char* off : {R"({"enabled": false})", "{}", "false", "null"})
      CHECK(not_built(off) == "");
  }
  CHECK(errors(R"({"bf16": false, "fp16": false})") == "");
  CHECK(contains(errors(R"({"training": false})"), "must be an object"));
}
