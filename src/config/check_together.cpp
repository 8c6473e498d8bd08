#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "hgtrain/base/text.h"
#include "hgtrain/config/model_family.h"

#include "loading.h"
#include "value.h"

namespace hgt {
namespace {

/// The value given for a key that is not built or ignored, after to_value; null if there is none.
Json value_of(const Loading& loading, const std::string& path) {
  const auto found = loading.given_keys.find(path);
  return found == loading.given_keys.end() ? Json() : found->second.value;
}

/// Whether the key is on or may be: "auto" may depend on the GPUs of the run.
bool may_be_on(const Loading& loading, const std::string& path) {
  const auto origin = loading.origins.find(path);
  return value_of(loading, path) == true ||
         (origin != loading.origins.end() && origin->second.kind == OriginKind::kAuto);
}

void check_precision(Loading& loading) {
  const auto error = [&](const std::string& path, std::string message, std::string hint = "") {
    loading.problem_at(Severity::kError, path, std::move(message), std::move(hint));
  };
  if (value_of(loading, "fp16.enabled") == true && value_of(loading, "bf16.enabled") == true)
    error("fp16.enabled", "fp16 and bf16 are both enabled", "disable one of them");
  const PrecisionConfig& p = loading.config().precision;
  if (p.bf16_state && !p.bf16_parameters)
    error("bf16.bf16_optimizer_states",
          "bf16.bf16_optimizer_states needs bf16.bf16_master_weights_and_grads",
          "set that too, or leave both out");
  if (p.bf16_parameters && !may_be_on(loading, "bf16.enabled"))
    loading.problem_at(Severity::kNotice, "bf16.bf16_master_weights_and_grads",
                       "bf16.bf16_master_weights_and_grads has an effect only in bf16 training");
  if (p.bf16_parameters && loading.config().optimizer.type == "Lamb")
    loading.problem_at(Severity::kNotBuilt, "bf16.bf16_master_weights_and_grads",
                       "Lamb without fp32 masters is not built",
                       "use another optimizer, or keep the masters");
  const bool fp16 = may_be_on(loading, "fp16.enabled");
  const double scale = loading.number("fp16.loss_scale", 0);
  if (fp16 && scale > std::numeric_limits<float>::max())
    error("fp16.loss_scale", fmt::format("fp16.loss_scale = {} is too large for fp32", scale),
          "0 is a dynamic loss scale");
  if (!fp16 || scale != 0) return;
  for (const char* name : {"loss_scale_window", "hysteresis"})
    if (const std::string path = std::string("fp16.") + name; loading.number(path, 1) < 1)
      error(path, fmt::format("{} must be at least 1 if the loss scale is dynamic", path));
}

/// Adds notices for keys that have no effect at this stage of ZeRO.
void add_stage_notices(double stage, Loading& loading) {
  for (const int needed : {1, 3}) {
    std::vector<std::string> idle;
    for (const auto& [path, given] : loading.given_keys)
      if (needed > stage && given.field->zero_stage == needed && !given.is_auto &&
          given.value != default_of(*given.field) && !is_off(*given.field, given.value))
        idle.push_back(path);
    if (!idle.empty())
      loading.problem(
          Severity::kNotice, {},
          fmt::format("these keys need ZeRO stage {}, and have no effect at stage {}: {}", needed,
                      stage, listed(idle)));
  }
}

void check_zero(Loading& loading) {
  const double stage = loading.number("zero_optimization.stage", 0);
  const auto error = [&](const std::string& path, const std::string& message) {
    loading.problem_at(Severity::kError, path, message);
  };
  if (stage == 3 && value_of(loading, "gradient_allreduce_op") == "sum")
    error("gradient_allreduce_op",
          "gradient_allreduce_op = \"sum\" cannot be combined with ZeRO stage 3");
  if (stage < 3 && loading.number("zero_optimization.offload_optimizer.ratio", 1) < 1)
    error("zero_optimization.offload_optimizer.ratio",
          "offload_optimizer.ratio below 1 needs ZeRO stage 3");
  const bool scatters = value_of(loading, "zero_optimization.reduce_scatter") != false;
  if (stage >= 2 && scatters && value_of(loading, "prescale_gradients") == true)
    error("prescale_gradients", "prescale_gradients cannot be combined with ZeRO's reduce_scatter");
  if (stage >= 2 && scatters && loading.number("gradient_predivide_factor", 1) != 1)
    error("gradient_predivide_factor",
          "gradient_predivide_factor cannot be combined with ZeRO's reduce_scatter");
  add_stage_notices(stage, loading);
}

/// DeepSpeed accepts the clipping norm in one place only, but some files have it in two.
void check_clipping(Loading& loading) {
  const Json value = value_of(loading, "optimizer.params.max_grad_norm");
  if (value.is_number() && value.get<double>() != loading.config().gradient_clipping)
    loading.problem_at(
        Severity::kError, "optimizer.params.max_grad_norm",
        fmt::format("optimizer.params.max_grad_norm = {} is not gradient_clipping = {}",
                    value.dump(), loading.config().gradient_clipping),
        "set gradient_clipping, and remove max_grad_norm");
}

/// Without a loss scale, most gradients are too small for fp16.
void check_gradient_sums(Loading& loading) {
  if (loading.config().communication_data_type != "fp16" || may_be_on(loading, "fp16.enabled"))
    return;
  loading.problem_at(Severity::kError, "communication_data_type",
                     "communication_data_type = fp16 needs fp16.enabled, because only a loss scale "
                     "keeps gradients in fp16's range",
                     "use bf16");
}

void check_rates(Loading& loading) {
  const Config& c = loading.config();
  const auto top = c.scheduler.numbers.find("warmup_max_lr");
  if (top != c.scheduler.numbers.end() && top->second != c.optimizer.lr &&
      loading.has_origin("optimizer.params.lr"))
    loading.problem_at(
        Severity::kNotice, "scheduler.params.warmup_max_lr",
        fmt::format("the rate rises to scheduler.params.warmup_max_lr = {}, not to "
                    "optimizer.params.lr = {}",
                    top->second, c.optimizer.lr),
        fmt::format("to use the optimizer's: --scheduler.params.warmup_max_lr {}", c.optimizer.lr));
  const auto momentum = c.scheduler.numbers.find("cycle_momentum");
  const bool betas = c.optimizer.type != "SGD" && c.optimizer.type != "Adagrad";
  if (momentum != c.scheduler.numbers.end() && momentum->second != 0 && !betas)
    loading.problem_at(Severity::kNotice, "scheduler.params.cycle_momentum",
                       fmt::format("OneCycle changes only the rate: its momentum is beta1, which "
                                   "{} does not have",
                                   c.optimizer.type));
}

void check_optimizer(Loading& loading) {
  const OptimizerConfig& o = loading.config().optimizer;
  const auto error = [&](const char* name, std::string message) {
    loading.problem_at(Severity::kError, std::string("optimizer.params.") + name,
                       std::move(message));
  };
  if (o.beta1 >= 1 || o.beta2 >= 1) error("betas", "optimizer.params.betas must be less than 1");
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    error("nesterov", "optimizer.params.nesterov needs a momentum, and no dampening");
  if (o.min_coeff > o.max_coeff)
    error("min_coeff", fmt::format("optimizer.params.min_coeff = {} is more than max_coeff = {}",
                                   o.min_coeff, o.max_coeff));
}

void check_lr_schedule(Loading& loading) {
  const Config& c = loading.config();
  const LrScheduleConfig& s = c.training.lr_schedule;
  const std::string section = "training.lr_schedule";
  const auto given = loading.given_keys.lower_bound(section + ".");
  if (given == loading.given_keys.end() || !given->first.starts_with(section + ".")) return;
  if (!c.scheduler.type.empty())
    loading.problem_at(Severity::kError, given->first,
                       "scheduler and training.lr_schedule are both given", "keep one of them");
  if (!loading.given(section + ".type"))
    loading.problem_at(Severity::kError, given->first, "training.lr_schedule has no type",
                       "one of: constant, cosine, wsd");
  if (s.min_lr > c.optimizer.lr)
    loading.problem_at(
        Severity::kError, section + ".min_lr",
        fmt::format("training.lr_schedule.min_lr = {} is more than optimizer.params.lr = {}",
                    s.min_lr, c.optimizer.lr));
  const std::int64_t end = s.warmup_iters + std::max<std::int64_t>(s.decay_iters, 1);
  if (c.training.train_iters > 0 && end > c.training.train_iters)
    loading.problem_at(
        Severity::kNotice, given->first,
        fmt::format(
            "training.lr_schedule takes {} steps, but training.train_iters = {}: the learning "
            "rate will not reach the schedule's end",
            end, c.training.train_iters));
}

void check_scheduler_length(Loading& loading) {
  const std::string total = "scheduler.params.total_num_steps";
  const double steps = static_cast<double>(loading.config().training.train_iters);
  const double planned = loading.number(total, steps);
  if (steps > 0 && planned != steps)
    loading.problem_at(
        Severity::kNotice, total,
        fmt::format("{} = {}, but the run has {} steps: {}", total, planned, steps,
                    planned > steps
                        ? "the learning rate will not have decayed fully when the run ends"
                        : "after that, the learning rate stays constant"),
        fmt::format("to let it end with the run: --{} {}", total, steps));
}

void check_warmup(Loading& loading) {
  const Config& c = loading.config();
  const auto scheduled = c.scheduler.numbers.find("warmup_num_steps");
  const bool own = scheduled == c.scheduler.numbers.end();
  const double warmup =
      own ? static_cast<double>(c.training.lr_schedule.warmup_iters) : scheduled->second;
  const auto steps = static_cast<double>(c.training.train_iters);
  const std::string path =
      own ? "training.lr_schedule.warmup_iters" : "scheduler.params.warmup_num_steps";
  if (steps > 0 && warmup > steps)
    loading.problem_at(
        Severity::kNotice, path,
        fmt::format("{} = {}, but the run has {} steps: the learning rate will not have risen "
                    "fully when the run ends",
                    path, warmup, steps),
        fmt::format("for a shorter warmup: --{} N", path));
}

void check_lengths(Loading& loading) {
  const Config& c = loading.config();
  const std::string positions = loading.model_key("max_position_embeddings");
  if (!family_of(c.model).rope && c.training.seq_length > c.model.max_position_embeddings &&
      c.model.max_position_embeddings > 0)
    loading.problem_at(
        Severity::kError, "training.seq_length",
        fmt::format("training.seq_length = {} is longer than model.{} = {}", c.training.seq_length,
                    positions, c.model.max_position_embeddings),
        loading.given("model.init")
            ? "shorten training.seq_length"
            : fmt::format("raise model.{}, or shorten training.seq_length", positions));
  if (family_of(c.model).rope && c.training.seq_length > c.model.max_position_embeddings &&
      c.model.max_position_embeddings > 0 && c.model.rope_scaling.type != "dynamic")
    loading.problem_at(
        Severity::kNotice, "training.seq_length",
        fmt::format("training.seq_length = {} is longer than model.{} = {}, at which `hgtrain "
                    "generate` ends texts",
                    c.training.seq_length, positions, c.model.max_position_embeddings),
        loading.given("model.init")
            ? "shorten training.seq_length"
            : fmt::format("set model.{} = {}, or shorten training.seq_length", positions,
                          c.training.seq_length));
  const auto& [recompute, layers] = c.recompute;
  if (layers > 0 && recompute == "none")
    loading.problem_at(Severity::kNotice, "activation_checkpointing.num_layers",
                       "activation_checkpointing.num_layers has no effect with mode none",
                       "set activation_checkpointing.mode to full or selective");
  if (layers > c.model.num_hidden_layers && c.model.num_hidden_layers > 0)
    loading.problem_at(Severity::kError, "activation_checkpointing.num_layers",
                       fmt::format("activation_checkpointing.num_layers = {} is more than the "
                                   "model's {} layers",
                                   layers, c.model.num_hidden_layers),
                       "0 means all layers");
  if (c.training.ema_decay >= 1)
    loading.problem_at(Severity::kError, "training.ema_decay",
                       "training.ema_decay must be less than 1");
  if (!c.data.valid.empty() && c.data.valid_fraction > 0)
    loading.problem_at(Severity::kError, "data.valid_fraction",
                       "data.valid_data_path and data.valid_fraction are both given",
                       "keep one of them");
}

/// Notices of defaults that differ from those of other programs that read the same file.
void add_default_notices(Loading& loading) {
  const auto optimizer = loading.given_keys.lower_bound("optimizer.");
  const auto& problems = loading.result.problems;
  const bool refused = std::any_of(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.pointer.starts_with("/optimizer");
  });
  if (!refused &&
      (optimizer == loading.given_keys.end() || !optimizer->first.starts_with("optimizer.")))
    loading.problem(Severity::kNotice, {},
                    fmt::format("there is no optimizer section: AdamW with lr {} is used, but "
                                "HF's Trainer would use 5e-05",
                                loading.config().optimizer.lr),
                    "set optimizer.params.lr");
  if (!loading.given("gradient_clipping"))
    loading.problem(Severity::kNotice, {},
                    "gradient_clipping is not given: 1.0 is used, as in DeepSpeed since 0.19; "
                    "older versions did not clip gradients",
                    "set gradient_clipping: 1.0, or 0 for none");
}

void check_copy(Loading& loading) {
  const std::string& copy = loading.config().checkpoint.copy_to;
  if (copy.starts_with('~'))
    loading.problem_at(
        Severity::kError, "checkpoint.copy_to",
        fmt::format("checkpoint.copy_to = \"{}\" would be a folder called ~ here", copy),
        "write the whole path: only a shell replaces ~");
  if (copy.substr(0, copy.find('/')).find(':') != std::string::npos)
    loading.problem_at(
        Severity::kError, "checkpoint.copy_to",
        fmt::format("checkpoint.copy_to = \"{}\" names another machine, and only folders of this "
                    "one can get copies",
                    copy),
        "mount that folder here, or write ./ before the name of a folder with a colon");
}

/// Keys that training needs but a file made for DeepSpeed alone lacks.
void check_complete(Loading& loading, bool trains_on_data) {
  const auto missing = [&](const char* what, const char* section) {
    loading.problem(Severity::kMissing, {}, what, "for example " + find_field(section)->example);
  };
  const TrainingConfig& t = loading.config().training;
  if (trains_on_data && loading.config().data.train.empty() &&
      !loading.refused("data.train_data_path"))
    missing("data.train_data_path is missing: it names the data to train on", "data");
  const bool length = !trains_on_data || t.train_iters > 0 || t.num_epochs > 0 ||
                      t.train_samples > 0 || loading.refused("training.train_iters") ||
                      loading.refused("training.num_epochs") ||
                      loading.refused("training.train_samples");
  const bool width = t.seq_length > 0 || loading.refused("training.seq_length") ||
                     loading.refused("model.init") || loading.refused("model.config");
  if (!length && !width)
    missing(
        "training.train_iters and training.seq_length are missing: they say how long to train, and "
        "how many tokens a sample has",
        "training");
  else if (!length)
    missing("training.train_iters is missing: it says how long to train", "training");
  else if (!width)
    missing("training.seq_length is missing: it says how many tokens a sample has", "training");
  const DataConfig& d = loading.config().data;
  if (trains_on_data && t.eval_interval > 0 && d.valid.empty() && d.valid_fraction == 0 &&
      !loading.refused("data.valid_data_path") && !loading.refused("data.valid_fraction"))
    loading.problem_at(
        Severity::kMissing, "training.eval_interval",
        fmt::format("there is no validation data, which training.eval_interval = {} needs",
                    t.eval_interval),
        "set data.valid_data_path or data.valid_fraction, or never evaluate: "
        "--training.eval_interval 0");
}

void check_best(Loading& loading) {
  const Config& c = loading.config();
  if (c.checkpoint.keep_best && c.training.eval_interval == 0)
    loading.problem_at(Severity::kError, "checkpoint.keep_best",
                       "checkpoint.keep_best needs evaluations, but training.eval_interval is 0",
                       "set training.eval_interval, or leave checkpoint.keep_best out");
}

void tell_idle_split(Loading& loading) {
  const ParallelismConfig& p = loading.config().parallelism;
  const std::string default_schedule = ParallelismConfig().pipeline_schedule;
  if (p.sequence_parallel && p.tensor_parallel_size == 1)
    loading.problem_at(Severity::kNotice, "parallelism.sequence_parallel",
                       "parallelism.sequence_parallel has no effect without tensor parallelism",
                       "set parallelism.tensor_parallel_size, or leave it out; to share each "
                       "sequence: parallelism.context_parallel_size");
  if (p.pipeline_schedule != default_schedule && p.pipeline_parallel_size == 1 &&
      p.pipeline_schedule != "interleaved")  // that combination is refused
    loading.problem_at(
        Severity::kNotice, "parallelism.pipeline_schedule",
        fmt::format("parallelism.pipeline_schedule = \"{}\" has no effect without a pipeline",
                    p.pipeline_schedule),
        "set parallelism.pipeline_parallel_size, or leave it out");
}

/// Adds notices for monitors that are enabled, because no metrics will arrive there.
void add_monitor_notices(Loading& loading) {
  for (const char* monitor : {"tensorboard", "csv_monitor", "wandb", "comet"})
    if (const std::string path = std::string(monitor) + ".enabled";
        value_of(loading, path) == true) {
      std::erase(loading.ignored, path);
      loading.problem_at(Severity::kNotice, path,
                         fmt::format("{} is enabled, but hgtrain does not write to it", monitor),
                         "every metric is in metrics.jsonl and metrics.csv of the run folder");
    }
}

void add_unknown_notice(Loading& loading) {
  if (loading.unknown.empty()) return;
  std::vector<std::string> keys;
  for (const auto& [key, place] : loading.unknown)
    keys.push_back(fmt::format("{} (line {})", key, place.line));
  if (keys.size() == 1)
    loading.problem(Severity::kNotice, loading.unknown.front().second,
                    loading.unknown.front().first + " is not known and is ignored");
  else
    loading.problem(Severity::kNotice, {},
                    "these keys are not known and are ignored: " + listed(keys));
  loading.result.problems.back().may_explain_errors = true;
}

void add_ignored_notices(Loading& loading) {
  const auto notice = [&](const std::vector<std::string>& keys, const char* what,
                          const char* hint = "") {
    if (!keys.empty())
      loading.problem(Severity::kNotice, {}, fmt::format("{}: {}", what, listed(keys)), hint);
  };
  const bool recompute = std::count(loading.ignored.begin(), loading.ignored.end(),
                                    "model.gradient_checkpointing") > 0;
  notice(loading.ignored, "hgtrain does not need these keys and ignores them",
         recompute
             ? "to recompute activations, set activation_checkpointing.mode to full or selective"
             : "");
  add_unknown_notice(loading);
  notice(loading.autos_dropped, "\"auto\" counts as absent for");
}

}  // namespace

void check_together(Loading& loading, const LoadOptions& options) {
  check_precision(loading);
  check_zero(loading);
  check_clipping(loading);
  check_gradient_sums(loading);
  check_rates(loading);
  check_optimizer(loading);
  check_lr_schedule(loading);
  check_scheduler_length(loading);
  check_warmup(loading);
  check_lengths(loading);
  check_best(loading);
  check_copy(loading);
  check_complete(loading, options.trains_on_data);
  add_default_notices(loading);
  tell_idle_split(loading);
  add_monitor_notices(loading);
  add_ignored_notices(loading);
}

}  // namespace hgt
