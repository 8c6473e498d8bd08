#include "early_stop.h"

#include <fmt/format.h>

#include "hgtrain/config/training_config.h"
#include "hgtrain/report/human.h"

namespace hgt {

void count_evaluation(double eval_loss, TrainingState& state) {
  const bool improved = eval_loss < state.best_eval_loss;
  if (improved) {
    state.best_eval_loss = eval_loss;
    state.best_eval_step = state.step;
  }
  state.evaluations_without_improvement = improved ? 0 : state.evaluations_without_improvement + 1;
}

std::optional<std::string> early_stop(const TrainingConfig& config, const TrainingState& state,
                                      std::optional<double> training_loss) {
  const bool evaluates = config.eval_interval > 0;
  const std::optional<double> loss = evaluates ? state.best_eval_loss : training_loss;
  if (config.target_loss && loss && *loss <= *config.target_loss)
    return fmt::format("{} loss {:.6g} reached target_loss {:.6g}",
                       evaluates ? "validation" : "training", *loss, *config.target_loss);
  if (config.patience > 0 && state.evaluations_without_improvement >= config.patience)
    return fmt::format("validation loss has not improved on {:.6g} for {}", state.best_eval_loss,
                       human_plural(state.evaluations_without_improvement, "evaluation"));
  return std::nullopt;
}

}  // namespace hgt
