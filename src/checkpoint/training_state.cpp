#include "training_state.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

namespace hgt {

std::string training_state_text(const TrainingState& state) {
  nlohmann::ordered_json out{
      {"global_step", state.step},
      {"consumed_samples", state.consumed_samples},
      {"consumed_tokens", state.consumed_tokens},
      {"optimizer_steps", state.optimizer_steps},
      {"best_eval_loss", state.best_eval_loss},  // infinity becomes null
      {"best_eval_step", state.best_eval_step},
      {"evaluations_without_improvement", state.evaluations_without_improvement},
      {"config_digest", state.config_digest},
      {"loss_scale",
       {{"scale", state.loss_scale.scale},
        {"steps", state.loss_scale.steps},
        {"last_overflow", state.loss_scale.last_overflow},
        {"hysteresis", state.loss_scale.hysteresis}}},
  };
  return out.dump(2) + "\n";
}

TrainingState parse_training_state(std::string_view text) {
  try {
    const auto json = parse_json<nlohmann::json>(text);
    const auto& best = json.at("best_eval_loss");
    TrainingState state;
    state.step = json_integer(json.at("global_step"));
    state.consumed_samples = json_integer(json.at("consumed_samples"));
    state.consumed_tokens = json_integer(json.at("consumed_tokens"));
    state.optimizer_steps = json_integer(json.at("optimizer_steps"));
    state.best_eval_loss =
        best.is_null() ? std::numeric_limits<double>::infinity() : best.get<double>();
    // Older checkpoints do not have it.
    if (json.contains("best_eval_step"))
      state.best_eval_step = json_integer(json["best_eval_step"]);
    state.evaluations_without_improvement =
        json_integer(json.at("evaluations_without_improvement"));
    state.config_digest =
        json.at("config_digest").get_ref<const nlohmann::json::number_unsigned_t&>();
    const auto& scale = json.at("loss_scale");
    state.loss_scale = {scale.at("scale").get<double>(), json_integer(scale.at("steps")),
                        json_integer(scale.at("last_overflow")),
                        json_integer(scale.at("hysteresis"))};
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: {}", kTrainingStateName, e.what()));
  }
}

}  // namespace hgt
