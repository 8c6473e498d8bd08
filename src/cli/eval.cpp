#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/report/human.h"
#include "hgtrain/wire/requests.h"

#include "check_flags.h"
#include "commands.h"
#include "eval_plan.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

class Eval final : public Command {
 public:
  std::string_view name() const override { return "eval"; }
  std::string_view summary() const override {
    return "measure a model's loss and perplexity on a token file";
  }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    options.add("--config", flags_.config,
                "config of the run to evaluate (default: that of --model's run)");
    options.add("--data", data_, "token file (default: the config's validation data)");
    options.add("--model", model_,
                "checkpoint, RUN, RUN@best, or HF model folder (default: the config's run)");
    options.add("--run_dir", flags_.run_dir, "folder of the config's run (default: runs/NAME)");
    options
        .add("--max_batches", max_batches_,
             "at most this many batches of train_batch_size samples; 0: all")
        .show_default();
    options.add("--num_gpus", flags_.num_gpus, "GPUs to use (default: all visible ones)");
    options.add("--num_workers", flags_.num_workers, "workers on the CPU");
    options.add("--device", flags_.device, "auto, cuda or cpu (default: the config's, else auto)")
        .one_of({"auto", "cuda", "cpu"});
    options.add_flag("--ema", ema_, "use the moving average of the weights (training.ema_decay)");
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>& overrides) override {
    check_range("--max_batches", max_batches_, 0, std::int64_t{1} << 40, "0 takes all");
    choose_model();
    const EvalPlan plan = make_eval_plan(flags_, overrides, model_, data_, max_batches_);
    tell("{}", notice_lines(plan.notices));
    tell("evaluating {} on {} of {}, {} on {}\n", plan.config.model.init,
         human_plural(plan.samples, "sample"),
         human_plural(plan.config.training.seq_length, "token"),
         human_plural(plan.workers, "worker"), plan.config.hardware.device);
    return start(plan);
  }

 private:
  /// If only one of config and model is given, derives the other: the model of the config's run, or
  /// the config of the model's run.
  void choose_model() {
    if (!flags_.config.empty()) flags_.config_text = read_config(flags_.config);
    if (model_.empty()) model_ = flags_.run_dir;
    const bool is_of_config = model_.empty() && !flags_.config.empty();
    if (is_of_config) model_ = default_run_dir(flags_.config);
    if (model_.empty())
      throw Error(ErrorKind::kConfig, "neither a config nor a model is named",
                  "name the model of a run, --model RUN, or a config: --config FILE");
    if (is_of_config && !path_exists(model_, ErrorKind::kConfig))
      throw Error(ErrorKind::kConfig,
                  fmt::format("there is no run folder {}: {} has not been trained yet", model_,
                              flags_.config),
                  "train first, or name a model: --model FOLDER");
    model_ = checkpoint_folder(model_);
    if (!path_exists(model_, ErrorKind::kConfig))
      throw Error(ErrorKind::kConfig, fmt::format("there is no model {}", model_),
                  "hgtrain downloads nothing: name a checkpoint, a run folder or an HF model "
                  "folder, --model FOLDER");
    if (!flags_.config.empty()) return;
    flags_.config = config_of_run(model_);
    if (flags_.config.empty())
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} belongs to no run, so it has no config", model_),
                  "name the config that says how long samples are and how large a batch is: "
                  "--config FILE");
  }

  int start(const EvalPlan& plan) const {
    std::optional<double> loss;
    JobSpec spec;
    const EvalRequest request{
        .weights = weights(), .samples = plan.samples, .config = to_json(plan.config).dump()};
    spec.argv = [argv = worker_argv(worker_program(), request)](int) { return argv; };
    spec.num_workers = plan.workers;
    spec.own_workers = true;
    spec.hang_limit = std::chrono::milliseconds(plan.config.distributed.timeout_ms());
    spec.on_event = [&](int, std::string_view kind, const nlohmann::json& body) {
      if (kind == "result") loss = body.at("loss").get<double>();
    };
    const Verdict verdict = run_job(spec);
    tell("{}", verdict.render());
    if (verdict.exit_code == 0) print(plan, loss.value());
    return verdict.exit_code;
  }

  void print(const EvalPlan& plan, double loss) const {
    const std::int64_t tokens = plan.samples * plan.config.training.seq_length;
    if (!json_) {
      say("loss        {}\nperplexity  {}\ntokens      {}\n", loss, std::exp(loss), tokens);
      return;
    }
    const nlohmann::ordered_json out{{"model", plan.config.model.init},
                                     {"weights", weights()},
                                     {"loss", loss},
                                     {"perplexity", std::exp(loss)},
                                     {"tokens", tokens},
                                     {"samples", plan.samples},
                                     {"seq_length", plan.config.training.seq_length}};
    say("{}\n", out.dump(2));
  }

  const char* weights() const { return ema_ ? "ema" : "model"; }

  TrainFlags flags_;
  std::string model_, data_;
  std::int64_t max_batches_ = 0;
  bool ema_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> eval_command() {
  return std::make_unique<Eval>();
}

}  // namespace hgt
