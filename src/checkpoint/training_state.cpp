#include "training_state.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hgt {

std::string training_state_text(const TrainingState& state) {
  nlohmann::ordered_json out{
      {"global_step", state.step},
      {"consumed_samples", state.consumed_samples},
      {"consumed_tokens", state.consumed_tokens},
      {"optimizer_steps", state.optimizer_steps},
      {"best_eval_loss", state.best_eval_loss},  // infinity becomes null
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
    const auto json = nlohmann::json::parse(text);
    const auto& best = json.at("best_eval_loss");
    TrainingState state;
    state.step = json.at("global_step").get<std::int64_t>();
    state.consumed_samples = json.at("consumed_samples").get<std::int64_t>();
    state.consumed_tokens = json.at("consumed_tokens").get<std::int64_t>();
    state.optimizer_steps = json.at("optimizer_steps").get<std::int64_t>();
    state.best_eval_loss =
        best.is_null() ? std::numeric_limits<double>::infinity() : best.get<double>();
    state.evaluations_without_improvement =
        json.at("evaluations_without_improvement").get<std::int64_t>();
    state.config_digest = json.at("config_digest").get<std::uint64_t>();
    const auto& scale = json.at("loss_scale");
    state.loss_scale = {scale.at("scale").get<double>(), scale.at("steps").get<std::int64_t>(),
                        scale.at("last_overflow").get<std::int64_t>(),
                        scale.at("hysteresis").get<std::int64_t>()};
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: {}", kTrainingStateName, e.what()));
  }
}

}  // namespace hgt
