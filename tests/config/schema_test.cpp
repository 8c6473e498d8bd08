#include "hgtrain/config/schema.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "hgtrain/base/json.h"
#include "hgtrain/config/model_family.h"

#include "loaded.h"

using namespace hgt;

namespace {

using Json = nlohmann::ordered_json;

/// visit(path, key) for every key of a schema by its own name.
template <class Visit>
void each_key(const Json& schema, const std::string& prefix, const Visit& visit) {
  const Json& object = schema.contains("anyOf") ? schema["anyOf"][0] : schema;
  if (!object.contains("properties")) return;
  for (const auto& [name, key] : object.at("properties").items()) {
    if (key.contains("deprecated")) continue;
    if (key.contains("x-class"))
      visit(prefix + name, key);
    else
      each_key(key, prefix + name + ".", visit);
  }
}

bool satisfies(const Json& value, const Json& schema);

bool has_type(const Json& value, const std::string& type) {
  return type == "null"      ? value.is_null()
         : type == "boolean" ? value.is_boolean()
         : type == "string"  ? value.is_string()
         : type == "array"   ? value.is_array()
         : type == "object"  ? value.is_object()
         : type == "number"  ? value.is_number()
                             : value.is_number() && value == std::floor(value.get<double>());
}

bool keys_satisfy(const Json& object, const Json& schema) {
  return std::ranges::all_of(object.items(), [&](const auto& item) {
    if (schema.at("properties").contains(item.key()))
      return satisfies(item.value(), schema["properties"][item.key()]);
    return std::regex_search(item.key(), std::regex(schema["patternProperties"].begin().key()));
  });
}

/// What a validator does with those words of JSON Schema that the schema uses.
bool satisfies(const Json& value, const Json& schema) {
  const auto any = [](const Json& of, const auto& holds) {
    return std::any_of(of.begin(), of.end(), holds);
  };
  const Json types = schema.value("type", Json::array());
  const auto is = [&](const Json& type) { return has_type(value, type); };
  if (types.is_string() ? !is(types) : !types.empty() && !any(types, is)) return false;
  if (schema.contains("anyOf") &&
      !any(schema["anyOf"], [&](const Json& one) { return satisfies(value, one); }))
    return false;
  if (schema.contains("enum") && !any(schema["enum"], [&](const Json& x) { return x == value; }))
    return false;
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("not") && satisfies(value, schema["not"])) return false;
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>())))
    return false;
  if (value.is_number() &&
      ((schema.contains("minimum") && value < schema["minimum"]) ||
       (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) ||
       (schema.contains("maximum") && value > schema["maximum"])))
    return false;
  return !value.is_object() || !schema.contains("properties") || keys_satisfy(value, schema);
}

/// A job with every optimizer and scheduler, for those keys that only some have.
std::vector<Json> jobs_of(const std::string& family) {
  Json job = parse_json<Json>(R"({"train_batch_size": 8, "model": {},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "training": {"train_iters": 100, "seq_length": 64}, "data": {"train_data_path": "x"}})");
  job["model"]["model_type"] = family;
  std::vector<Json> out = {job};
  for (const char* type : {"SGD", "Lamb", "Adam"}) {
    out.push_back(job);
    out.back()["optimizer"]["type"] = type;
  }
  for (const char* type : {"cosine", "wsd"}) {
    out.push_back(job);
    out.back()["training"]["lr_schedule"]["type"] = type;
  }
  for (const char* type : {"WarmupLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"}) {
    out.push_back(job);
    out.back()["scheduler"]["type"] = type;
  }
  return out;
}

/// The job as resolved; null if it has errors.
Json resolved(const Json& job, std::vector<std::string> overrides = {}) {
  const LoadResult result = loaded(job.dump(), 1, std::move(overrides));
  return problem_text(result, Severity::kError).empty() ? to_json(result.config) : Json();
}

}  // namespace

TEST_CASE("the schema has types, ranges, choices, defaults and other spellings") {
  const auto schema = config_schema();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  const auto& training = schema["properties"]["training"]["properties"];
  CHECK(training["train_iters"]["type"][0] == "integer");
  CHECK(training["eval_iters"]["minimum"] == 1);
  CHECK(training["eval_iters"]["x-class"] == "used");
  CHECK(training["eval_iters"]["default"] == 10);
  CHECK(training["max_steps"]["description"] == "the same as train_iters");
  const auto& zero = schema["properties"]["zero_optimization"]["anyOf"][0]["properties"];
  CHECK(zero["cpu_offload"]["x-class"] == "used");  // it sets offload_optimizer.device
  CHECK(schema["properties"]["sequence_parallel_size"]["x-class"] == "not_built");
  CHECK(schema["properties"]["training"]["additionalProperties"] == false);
  CHECK(schema["additionalProperties"] == false);
  const auto& params = schema["properties"]["optimizer"]["properties"]["params"];
  CHECK(params["additionalProperties"] == false);
  const auto& model = schema["properties"]["model"]["anyOf"][0]["properties"];
  CHECK(model["bos_token_id"]["type"][1] == "null");  // as a run's config.json has it
  CHECK(model["hidden_size"]["type"][0] == "integer");
  CHECK(params["properties"].contains("momentum"));
  CHECK(schema["properties"]["gradient_clipping"]["anyOf"][1]["const"] == "auto");
  CHECK(schema["properties"]["hardware"]["properties"]["device"]["anyOf"][0]["enum"].size() == 3);
  const auto& type = schema["properties"]["optimizer"]["properties"]["type"]["anyOf"][0];
  CHECK(type["x-choices"]["Muon"] == "not_built");
  CHECK(type["x-choices"]["OneBitAdam"] == "not_built");
  CHECK_FALSE(type["x-choices"].contains("SGD"));
  CHECK(schema["properties"]["model"]["anyOf"][1]["type"][0] == "string");
  CHECK(schema["properties"]["amp"]["properties"]["enabled"]["description"]
            .get<std::string>()
            .starts_with("(not built yet)"));
}

TEST_CASE("the schema takes what trains, and refuses what does not") {
  const Json schema = config_schema();
  const Json job = jobs_of("llama").front();
  const auto with = [&](const std::string& keys) {
    const Json patch = Json::parse("{" + keys + "}");
    Json out = job;
    out.merge_patch(patch);  // which removes what is null
    for (const auto& [key, value] : patch.items())
      if (value.is_null()) out[key] = nullptr;
    return out;
  };
  for (const char* keys :
       {"", R"("optimizer": null)", R"("fp16": null, "bf16": null, "gradient_clipping": null)",
        R"("optimizer": {"type": "adamw"})", R"("scheduler": {"type": "WARMUPLR"})",
        R"("fp16": false, "zero_optimization": {"stage": 3, "offload_param": false})",
        R"("zero_optimization": true)", R"("zero_optimization": null, "_why": "small")",
        R"("train_batch_size": "auto", "gradient_accumulation_steps": 1,
           "train_micro_batch_size_per_gpu": 8.0)",
        R"("parallelism": {"pipeline_layer_split": "Balanced"})",
        R"("parallelism": {"pipeline_layer_split": [32]})", R"("tokenizer": "bytes")"}) {
    INFO(keys);
    CHECK(problem_text(loaded(with(keys).dump()), Severity::kError) == "");
    CHECK(satisfies(with(keys), schema));
  }
  for (const char* keys :
       {R"("optimizer": 3)", R"("optimizer": {"type": "adam w"})", R"("optimizer": true)",
        R"("zero_optimization": {"stage": 4})", R"("optimizer": {"params": {"eps": -1}})",
        R"("training": {"train_iters": "many"})", R"("hardware": {"device": "gpu"})",
        R"("parallelism": {"pipeline_layer_split": "odd"})", R"("training": {"no_such_key": 3})"}) {
    INFO(keys);
    CHECK(problem_text(loaded(with(keys).dump()), Severity::kError) != "");
    CHECK_FALSE(satisfies(with(keys), schema));
  }
}

TEST_CASE("the schema can be printed as text") {
  CHECK(contains(config_keys_text(false), "training.seed"));
  CHECK_FALSE(contains(config_keys_text(false), "zero_optimization.overlap_comm"));
  CHECK(contains(config_keys_text(true), "zero_optimization.overlap_comm"));
}

TEST_CASE("keys outside any section are known by every name") {
  CHECK(is_toplevel_key("train_batch_size"));
  CHECK(is_toplevel_key("micro_batch_size"));
  CHECK_FALSE(is_toplevel_key("training"));
  CHECK_FALSE(is_toplevel_key("num_gpus"));
  CHECK_FALSE(is_toplevel_key("tp"));
  CHECK(config_key_paths().size() > 60);
}

TEST_CASE("sections are known by name") {
  CHECK(is_section("scheduler"));
  CHECK_FALSE(is_section("gradient_clipping"));
  CHECK_FALSE(is_section("none"));
}

TEST_CASE("the schema's defaults are the values of a job without the key") {
  for (const Family& family : families()) {
    const std::vector<Json> jobs = jobs_of(family.type);
    each_key(config_schema(), "", [&](const std::string& path, const Json& key) {
      const Json defaults = key.value("x-defaults", Json::object());
      const Json value = defaults.value(family.type, key.value("default", Json()));
      if (key["x-class"] != "used" || value.is_null() || value == "") return;  // "": it is not set
      INFO(family.type << " " << path << " " << value.dump());
      const bool is_same = std::any_of(jobs.begin(), jobs.end(), [&](const Json& job) {
        Json without = job;
        const Json::json_pointer place("/" + std::regex_replace(path, std::regex("[.]"), "/"));
        if (job.contains(place)) without.at(place.parent_pointer()).erase(place.back());
        const Json with =
            resolved(job, {path, value.is_string() ? value.get<std::string>() : value.dump()});
        return !with.is_null() && with == resolved(without);
      });
      CHECK(is_same);
    });
  }
}

TEST_CASE("keys that differ between model families have a default for each") {
  const auto model = config_schema()["properties"]["model"]["anyOf"][0]["properties"];
  CHECK(model["attn_pdrop"]["x-defaults"]["gpt2"] == 0.1);
  CHECK(model["attn_pdrop"]["x-defaults"]["llama"] == 0.0);
  CHECK(model["norm_eps"]["x-defaults"]["qwen3"] == 1e-6);
  CHECK_FALSE(model["attn_pdrop"].contains("default"));
  CHECK_FALSE(model["head_dim"].contains("default"));
}
