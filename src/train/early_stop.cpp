#include "early_stop.h"

#include <fmt/format.h>

namespace hgt {

std::optional<std::string> early_stop(const TrainingConfig& config, double loss,
                                      std::optional<double> eval_loss, TrainingState& state) {
  if (eval_loss) {
    const bool improved = *eval_loss < state.best_eval_loss;
    if (improved) state.best_eval_loss = *eval_loss;
    state.evaluations_without_improvement =
        improved ? 0 : state.evaluations_without_improvement + 1;
  }
  const std::optional<double> judged = config.eval_interval > 0 ? eval_loss : loss;
  if (config.target_loss && judged && *judged <= *config.target_loss)
    return fmt::format("{} loss {:.6g} reached target_loss {:.6g}",
                       config.eval_interval > 0 ? "validation" : "training", *judged,
                       *config.target_loss);
  if (config.patience > 0 && state.evaluations_without_improvement >= config.patience)
    return fmt::format("validation loss has not improved on {:.6g} for {} evaluations",
                       state.best_eval_loss, state.evaluations_without_improvement);
  return std::nullopt;
}

}  // namespace hgt
