// Source: transformers' modeling_rope_utils.py.
#include "rope.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(std::string message, std::string hint = "") {
  throw Error(ErrorKind::kConfig, std::move(message), std::move(hint));
}

class Rope {
 public:
  explicit Rope(const Json& parameters) : parameters_(parameters) {
    if (!parameters.is_object()) fail(fmt::format("must be an object, not {}", parameters.dump()));
    for (const auto& [key, value] : parameters.items())
      if (value.is_object()) fail("one rotary embedding per layer type is not supported");
  }

  void read(ModelConfig& model) const {
    model.rope_theta = positive("rope_theta", model.rope_theta);
    if (positive("partial_rotary_factor", 1.0) != 1.0)
      fail("partial_rotary_factor must be 1", "heads that are rotated in part are not supported");
    RopeScaling scaling;
    scaling.type = type();
    if (scaling.type == "default") {
      model.rope_scaling = {};
      return;
    }
    scaling.original_max_position_embeddings = static_cast<std::int64_t>(positive(
        "original_max_position_embeddings", static_cast<double>(model.max_position_embeddings)));
    if (scaling.type == "yarn")
      yarn(scaling, static_cast<double>(model.max_position_embeddings));
    else
      scaling.factor = required("factor");
    if (scaling.type == "llama3") llama3(scaling);
    model.rope_scaling = scaling;
  }

 private:
  std::string type() const {
    const char* const key = parameters_.contains("rope_type") ? "rope_type" : "type";
    if (!has(key)) return "default";
    const Json& type = parameters_[key];
    for (const char* known : {"default", "linear", "dynamic", "llama3", "yarn"})
      if (type == known) return known;
    fail(fmt::format("{} = {} is not supported", key, type.dump()),
         "one of: default, linear, dynamic, llama3, yarn");
  }

  void llama3(RopeScaling& scaling) const {
    scaling.low_freq_factor = required("low_freq_factor");
    scaling.high_freq_factor = required("high_freq_factor");
    if (scaling.high_freq_factor <= scaling.low_freq_factor)
      fail(fmt::format("high_freq_factor = {} must be more than low_freq_factor = {}",
                       scaling.high_freq_factor, scaling.low_freq_factor));
  }

  void yarn(RopeScaling& scaling, double longest) const {
    scaling.factor =
        positive("factor", longest / static_cast<double>(scaling.original_max_position_embeddings));
    scaling.beta_fast = positive("beta_fast", 32);
    scaling.beta_slow = positive("beta_slow", 1);
    if (scaling.beta_fast < scaling.beta_slow)
      fail(fmt::format("beta_fast = {} must not be less than beta_slow = {}", scaling.beta_fast,
                       scaling.beta_slow));
    scaling.attention_factor = optional("attention_factor");
    scaling.mscale = optional("mscale");
    scaling.mscale_all_dim = optional("mscale_all_dim");
    if (!has("truncate")) return;
    if (!parameters_["truncate"].is_boolean()) fail("truncate must be true or false");
    scaling.truncate = parameters_["truncate"];
  }

  bool has(const char* key) const {
    return parameters_.contains(key) && !parameters_[key].is_null();
  }

  std::optional<double> optional(const char* key) const {
    if (!has(key)) return std::nullopt;
    const Json& value = parameters_[key];
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      fail(fmt::format("{} must be a number that is not negative, not {}", key, value.dump()));
    return value.get<double>();
  }

  double positive(const char* key, double otherwise) const {
    const double value = optional(key).value_or(otherwise);
    if (!(value > 0) || value > 1e15) fail(fmt::format("{} = {} is out of range", key, value));
    return value;
  }

  double required(const char* key) const {
    if (!has(key)) fail(fmt::format("{} is missing", key));
    return positive(key, 0);
  }

  const Json& parameters_;
};

}  // namespace

void read_rope(const Json& parameters, ModelConfig& model) {
  if (!parameters.is_null()) Rope(parameters).read(model);
}

}  // namespace hgt
