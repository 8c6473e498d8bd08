#include "hgtrain/config/schema.h"

#include "loaded.h"

using namespace hgt;

TEST_CASE("the schema has types, ranges, choices, defaults and other spellings") {
  const auto schema = config_schema();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  const auto& training = schema["properties"]["training"]["properties"];
  CHECK(training["train_iters"]["type"] == "integer");
  CHECK(training["eval_iters"]["minimum"] == 1);
  CHECK(training["eval_iters"]["x-class"] == "used");
  CHECK(training["eval_iters"]["default"] == 10);
  CHECK(training["max_steps"]["description"] == "the same as train_iters");
  CHECK(schema["properties"]["training"]["additionalProperties"] == false);
  CHECK_FALSE(schema.contains("additionalProperties"));
  CHECK(schema["properties"]["gradient_clipping"]["anyOf"][1]["const"] == "auto");
  CHECK(schema["properties"]["hardware"]["properties"]["device"]["enum"].size() == 3);
  const auto& type = schema["properties"]["optimizer"]["properties"]["type"];
  CHECK(type["x-choices"]["Muon"] == "not_built");
  CHECK(type["x-choices"]["OneBitAdam"] == "error");
  CHECK_FALSE(type["x-choices"].contains("SGD"));
  CHECK(schema["properties"]["model"]["anyOf"][1]["type"][0] == "string");
  CHECK(schema["properties"]["amp"]["properties"]["enabled"]["description"]
            .get<std::string>()
            .starts_with("(not built yet)"));
}

TEST_CASE("the table as text") {
  CHECK(contains(config_keys_text(false), "training.seed"));
  CHECK_FALSE(contains(config_keys_text(false), "zero_optimization"));
  CHECK(contains(config_keys_text(true), "zero_optimization.overlap_comm"));
}

TEST_CASE("keys outside any section are known by every name") {
  CHECK(is_toplevel_key("train_batch_size"));
  CHECK(is_toplevel_key("micro_batch_size"));
  CHECK_FALSE(is_toplevel_key("training"));
  CHECK_FALSE(is_toplevel_key("num_gpus"));
  CHECK(config_key_paths().size() > 60);
}

TEST_CASE("sections are known by name") {
  CHECK(is_section("scheduler"));
  CHECK_FALSE(is_section("gradient_clipping"));
  CHECK_FALSE(is_section("none"));
}
