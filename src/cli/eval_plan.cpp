#include "eval_plan.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/data/manifest.h"
#include "hgtrain/data/tokenizer.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

/// If flags changed the model when the run was started, samples as in the config file may be too
/// long for it. The hint then names the run, whose folder has a config with these flags.
void point_to_own_config(const std::string& config, const std::string& model, LoadResult& loaded) {
  const std::string own = config_of_run(model);
  if (own.empty() || own == fs::path(config).lexically_normal()) return;
  const std::string run = parent_folder(parent_folder(model));
  const auto newest = newest_checkpoint(run);
  const std::string name = newest && newest->path == model ? run : model;
  for (Problem& problem : loaded.problems)
    if (problem.pointer.starts_with("/training/seq") && !problem.file.empty())
      problem.hint = "leave --config out: " + shell_line({"hgtrain", "eval", "--model", name});
}

/// The batch of an evaluation has as many samples as in training. The micro-batch is the config's
/// or, without one, a worker's share of the batch. Any number of workers can share the samples.
BatchConfig eval_batch(const LoadResult& loaded, std::int64_t workers) {
  BatchConfig batch = loaded.config.batch;
  const auto micro =
      std::ranges::find(loaded.keys, "train_micro_batch_size_per_gpu", &KeyReport::path);
  if (batch.train_batch_size == 0)
    batch.micro_batch_size = batch.train_batch_size = kHfMicroBatch;
  else if (micro == loaded.keys.end() || micro->origin.kind == OriginKind::kDerived)
    batch.micro_batch_size =
        std::max<std::int64_t>(1, batch.train_batch_size / workers /
                                      std::max<std::int64_t>(1, batch.gradient_accumulation_steps));
  return batch;
}

/// The data must have been prepared with the model's tokenizer.
void check_vocabulary(const Vocabulary& vocabulary, const ModelConfig& model) {
  const std::string hint =
      fmt::format("prepare the text with the model's: hgtrain data prepare --tokenizer {}",
                  shell_word(model.init));
  const std::string& folder = vocabulary.tokenizer_folder;
  if (!folder.empty() && has_tokenizer(model.init) && !is_same_tokenizer(folder, model.init))
    throw Error(ErrorKind::kConfig,
                fmt::format("the data was prepared with another tokenizer ({}) than that of {}",
                            folder, model.init),
                hint);
  if (vocabulary.size > model.vocab_size)
    throw Error(ErrorKind::kConfig,
                fmt::format("the data has a vocabulary of {}, the model in {} one of {}",
                            vocabulary.size, model.init, model.vocab_size),
                hint);
}

bool is_missing(const std::string& token_file) {
  return !path_exists(token_file) && !path_exists(token_file + ".idx") &&
         !path_exists(token_file + ".bin");
}

/// Error(kConfig) if a file of the data is missing: paths in a config are relative to the folder in
/// which a command is started.
void require_reachable(const DataConfig& data) {
  for (const DataSource& source : data.valid.empty() ? data.train : data.valid)
    if (fs::path(source.path).is_relative() && is_missing(source.path))
      throw Error(ErrorKind::kConfig,
                  fmt::format("there is no token file {} in this folder", source.path),
                  "start eval in the folder that the run was started in, or name the data: --data "
                  "PREFIX");
}

/// Opens the data that is evaluated, as the workers will, and returns the number of its samples.
std::int64_t open_data(Config& config, const std::string& file) {
  DataConfig& data = config.data;
  if (!file.empty()) {
    data.train = data.valid = {{file}};
    data.valid_fraction = 0;
  }
  if (!has_validation(data))
    throw Error(ErrorKind::kConfig, "the config names no validation data",
                "name a token file: --data PREFIX");
  if (file.empty()) require_reachable(data);
  const auto split = Dataset::open(data, config.training.seq_length, Dataset::Split::kValid,
                                   std::numeric_limits<std::int32_t>::max());
  const Vocabulary vocabulary = vocabulary_of(data);
  check_vocabulary(vocabulary, config.model);
  if (!data.end_of_text && vocabulary.end_of_text >= 0) data.end_of_text = vocabulary.end_of_text;
  return split->num_samples();
}

/// Every worker of an evaluation has the whole model.
void add_unsplit_notice(const ParallelismConfig& asked, std::vector<Problem>& notices) {
  std::vector<std::string> keys;
  const auto add = [&](const char* key, std::int64_t size) {
    if (size > 1) keys.push_back(fmt::format("parallelism.{} = {}", key, size));
  };
  add("tensor_parallel_size", asked.tensor_parallel_size);
  add("context_parallel_size", asked.context_parallel_size);
  add("pipeline_parallel_size", asked.pipeline_parallel_size);
  if (!keys.empty())
    notices.push_back(
        notice(fmt::format("eval does not split the model: each worker has all of it, in "
                           "spite of {}",
                           fmt::join(keys, " and "))));
}

}  // namespace

std::string config_of_run(const std::string& checkpoint) {
  const fs::path run = fs::path(checkpoint) / "../..";
  const bool is_run = path_exists(run / "config.json") && path_exists(run / "checkpoints");
  return is_run ? (run / "config.json").lexically_normal().string() : "";
}

EvalPlan make_eval_plan(const TrainFlags& flags, std::vector<std::string> overrides,
                        const std::string& model, const std::string& data,
                        std::int64_t max_batches) {
  check_flags(flags);
  for (std::size_t i = 0; i < overrides.size(); i += 2)
    if (overrides[i] == "model" || overrides[i].starts_with("model."))
      throw Error(ErrorKind::kConfig,
                  fmt::format("--{} cannot change the model that is evaluated", overrides[i]),
                  "leave it out: the model is that of the folder " + model);
  overrides.insert(overrides.end(), {"model", nlohmann::json{{"init", model}}.dump()});
  if (!flags.device.empty()) add_short_flag(overrides, "--device", "hardware.device", flags.device);
  // The number of workers is left open: a batch that training splits evenly need not be here.
  LoadResult loaded = load_config_of(flags, {.overrides = overrides, .splits_model = false});
  point_to_own_config(flags.config, model, loaded);
  loaded.throw_errors();
  const Devices devices = choose_devices(flags, loaded);
  EvalPlan plan{
      loaded.config,
      checked_cast<int>(devices.workers, "the number of workers", ErrorKind::kConfig), 0,
      notices_of(LoadResult(), devices)};  // without the config's notices, which are about training
  Config& config = plan.config;
  resolve_devices(loaded, devices, config);
  add_unsplit_notice(config.parallelism, plan.notices);
  config.parallelism = {};
  config.batch = eval_batch(loaded, devices.workers);
  plan.samples = open_data(config, data);
  if (max_batches > 0)
    plan.samples = std::min(plan.samples, checked_mul(max_batches, config.batch.train_batch_size,
                                                      "--max_batches", ErrorKind::kConfig));
  // The workers know micro-batches alone.
  config.batch.train_batch_size = config.batch.micro_batch_size;
  config.batch.gradient_accumulation_steps = 1;
  return plan;
}

}  // namespace hgt
