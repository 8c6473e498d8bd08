#include "hgtrain/config/model_family.h"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/schema.h"

using namespace hgt;
using Catch::Contains;

TEST_CASE("a family is found by its model_type, and an unknown type names those that are built") {
  ModelConfig model;
  model.model_type = "qwen3";
  CHECK(std::string(family_of(model).architecture) == "Qwen3ForCausalLM");
  CHECK_THROWS_WITH(family_of("mixtral"), Contains("\"mixtral\" is not supported"));
  try {
    family_of("mixtral");
  } catch (const Error& e) {
    CHECK(e.hint() == "use one of " + family_types());
    CHECK(e.kind() == ErrorKind::kConfig);
  }
}

TEST_CASE("no two families have the same type or class") {
  std::set<std::string> names;
  for (const Family& family : families()) {
    CHECK(names.insert(family.type).second);
    CHECK(names.insert(family.architecture).second);
  }
}

TEST_CASE("the defaults of each family have the names of our keys") {
  const std::vector<std::string> paths = config_key_paths();
  for (const Family& family : families()) {
    const auto defaults = family_defaults(family);
    for (const auto& [name, value] : defaults.items()) {
      INFO(family.type << " " << name);
      CHECK(std::ranges::count(paths, "model." + name) == 1);
    }
  }
}

TEST_CASE("each activation of a family names itself and a function that is built") {
  for (const Family& family : families())
    for (const std::string& name : activations_of(family)) {
      INFO(family.type << " " << name);
      CHECK(activation_name(name) == name);
      CHECK_NOTHROW(activation_of(name));
    }
  const auto has = [](const char* family, const std::string& name) {
    return std::ranges::count(activations_of(family_of(family)), name) == 1;
  };
  CHECK(has("gpt2", "gelu_new"));
  CHECK_FALSE(has("gpt2", "gelu_fast"));
  CHECK_FALSE(has("gpt2", "silu"));
  CHECK(has("llama", "silu"));
  CHECK_FALSE(has("llama", "gelu_new"));
}

TEST_CASE("other names of an activation function mean the same function") {
  CHECK(activation_name("swish") == "silu");
  CHECK(activation_of("swish") == Activation::kSilu);
  CHECK(activation_of("gelu_fast") == activation_of("gelu_new"));
  CHECK(activation_name("tanh") == "tanh");
  CHECK_THROWS_WITH(activation_of("tanh"), Contains("model.hidden_act \"tanh\""));
}
