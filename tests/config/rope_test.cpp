#include "rope.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/model_config.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

namespace {

ModelConfig read(const char* text) {
  ModelConfig model;
  model.max_position_embeddings = 4096;
  read_rope(parse_json<Json>(text), model);
  return model;
}

std::string refusal(const char* text) {
  try {
    read(text);
  } catch (const Error& e) {
    return e.message();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("both spellings of the rotary embedding's scaling are understood") {
  CHECK(read("null").rope_scaling.type == "");
  CHECK(read(R"({"rope_type": "default", "rope_theta": 1e6})").rope_theta == 1e6);
  CHECK(read(R"({"type": "linear", "factor": 4})").rope_scaling.factor == 4);
  CHECK(read(R"({"rope_type": "dynamic", "factor": 2.5})").rope_scaling.type == "dynamic");
  const RopeScaling llama3 = read(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
      "high_freq_factor": 4, "original_max_position_embeddings": 8192})")
                                 .rope_scaling;
  CHECK(llama3.high_freq_factor == 4);
  CHECK(llama3.original_max_position_embeddings == 8192);
}

TEST_CASE("yarn's defaults follow from the lengths") {
  const RopeScaling yarn =
      read(R"({"type": "yarn", "original_max_position_embeddings": 1024})").rope_scaling;
  CHECK(yarn.factor == 4);
  CHECK(yarn.beta_fast == 32);
  CHECK_FALSE(yarn.attention_factor);
  CHECK(yarn.truncate);
  const RopeScaling given =
      read(R"({"rope_type": "yarn", "factor": 2, "beta_fast": 16, "beta_slow": 2,
      "mscale": 1.0, "mscale_all_dim": 0.5, "attention_factor": 1.2, "truncate": false})")
          .rope_scaling;
  CHECK(given.mscale_all_dim == 0.5);
  CHECK(given.attention_factor == 1.2);
  CHECK_FALSE(given.truncate);
}

TEST_CASE("invalid and unsupported scalings are refused") {
  CHECK(refusal(R"({"rope_type": "longrope"})").find("is not supported") != std::string::npos);
  CHECK(refusal(R"({"rope_type": 3})").find("is not supported") != std::string::npos);
  CHECK(refusal(R"({"type": "linear"})") == "factor is missing");
  CHECK(refusal(R"({"type": "linear", "factor": 0})") == "factor = 0 is out of range");
  CHECK(refusal(R"({"type": "linear", "factor": "2"})").find("must be a number") !=
        std::string::npos);
  CHECK(refusal(R"({"rope_type": "llama3", "factor": 8})") == "low_freq_factor is missing");
  CHECK(refusal(
            R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1})")
            .find("must be more than") != std::string::npos);
  CHECK(refusal(R"({"rope_type": "yarn", "beta_fast": 1, "beta_slow": 2})")
            .find("must not be less") != std::string::npos);
  CHECK(refusal(R"({"rope_type": "yarn", "truncate": 1})") == "truncate must be true or false");
  CHECK(refusal(R"({"partial_rotary_factor": 0.5})") == "partial_rotary_factor must be 1");
  CHECK(refusal(R"({"full_attention": {"rope_type": "default"}})").find("per layer type") !=
        std::string::npos);
  CHECK(refusal("[]").find("must be an object") != std::string::npos);
}
