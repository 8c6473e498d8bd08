#include "train_plan.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/data/manifest.h"
#include "hgtrain/data/tokenizer.h"
#include "hgtrain/launch/remote_command.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/parallel/layout.h"
#include "hgtrain/report/human.h"

#include "gpu_precision.h"
#include "known_gpu.h"
#include "run_folder.h"

namespace hgt {
namespace {

/// Error(kConfig) if the command line sets hardware.device to one kind, and counts workers of the
/// other kind.
void check_device_key(const TrainFlags& flags, const LoadResult& loaded) {
  const auto key = std::ranges::find(loaded.keys, "hardware.device", &KeyReport::path);
  if (key == loaded.keys.end() || key->origin.kind != OriginKind::kFlag) return;
  TrainFlags same = flags;
  same.device = loaded.config.hardware.device;
  check_flags(same);
}

void check_backend(const std::string& backend, const Devices& devices) {
  if (backend == "nccl" && devices.kind == "cpu")
    throw Error(ErrorKind::kConfig,
                "distributed.backend = \"nccl\" needs workers on GPUs, and these are on the CPU",
                "leave it out");
}

/// The devices of several hosts, which are not contacted yet: GPUs if flags or hostfile mention
/// GPUs, or if this machine is one of the hosts and has some. Each host checks that they exist
/// before anything starts.
Devices devices_of(const std::vector<JobHost>& hosts, const TrainFlags& flags,
                   const std::string& device) {
  const auto have_gpus = [&] {
    return std::ranges::any_of(hosts, [](auto& host) { return !host.devices.empty(); }) ||
           (flags.on_hosts.node_rank && !visible_gpus().gpus.empty());
  };
  const bool on_gpus =
      device == "cuda" || flags.num_gpus || (device != "cpu" && !flags.num_workers && have_gpus());
  Devices out{on_gpus ? "cuda" : "cpu", 0};
  out.on_one_machine = 1;
  if (!on_gpus && device != "cpu")
    out.notice = "the hosts train on their CPUs; to use their GPUs, add --device cuda";
  for (const JobHost& host : without_spares(hosts)) {
    out.workers += host.workers;
    out.on_one_machine = std::max<std::int64_t>(out.on_one_machine, host.workers);
  }
  return out;
}

}  // namespace

Devices choose_devices(const TrainFlags& flags, const LoadResult& loaded) {
  check_device_key(flags, loaded);
  if (const std::vector<JobHost> hosts = hosts_of(flags); !hosts.empty())
    return devices_of(hosts, flags, loaded.config.hardware.device);
  const HardwareConfig& hardware = loaded.config.hardware;
  const bool on_gpus = flags.num_gpus || !flags.gpu.empty();
  const std::string device = on_gpus ? "cuda" : flags.num_workers ? "cpu" : hardware.device;
  const std::int64_t on_cpu = flags.num_workers.value_or(flags.workers_here.value_or(1));
  if (device == "cpu") return {"cpu", on_cpu};
  if (flags.dry_run && on_gpus)  // they need not be on this machine
    return {"cuda", flags.num_gpus.value_or(flags.workers_here.value_or(1)),
            flags.gpu.empty() ? 0 : known_gpu(flags.gpu).compute_capability};
  const VisibleDevices visible = visible_gpus();
  if (device != "cuda" && visible.gpus.empty()) {
    const bool driver_failed = visible.machine.nvml_result > 0;
    return {"cpu", on_cpu, 0, driver_failed ? "training on the CPU: " + visible.found : ""};
  }
  const auto workers = flags.num_gpus.value_or(
      flags.workers_here.value_or(std::max<std::int64_t>(1, std::ssize(visible.gpus))));
  if (!flags.dry_run) require_gpus(hardware.oversubscribe ? 1 : static_cast<int>(workers), visible);
  const std::span used =
      std::span(visible.gpus)
          .first(std::min<std::size_t>(static_cast<std::size_t>(workers), visible.gpus.size()));
  const auto oldest = std::ranges::min_element(used, {}, &VisibleGpu::compute_capability);
  return {"cuda", workers, oldest == used.end() ? 0 : oldest->compute_capability};
}

void resolve_devices(const LoadResult& loaded, const Devices& devices, Config& config) {
  config.hardware.device = devices.kind;
  check_backend(config.distributed.backend, devices);
  if (devices.kind == "cuda") {
    resolve_precision(loaded, devices.compute_capability, config.precision);
    require_gpu_widths(config.model, config.precision.compute_dtype());
  }
  if (config.hardware.threads == 0)
    config.hardware.threads = threads_per_worker(devices.on_one_machine);
}

std::vector<Problem> notices_of(const LoadResult& loaded, const Devices& devices) {
  std::vector<Problem> notices;
  for (const Problem& problem : loaded.problems)
    if (problem.severity == Severity::kNotice) notices.push_back(problem);
  if (!devices.notice.empty()) notices.push_back(notice(devices.notice));
  return notices;
}

namespace {

/// tokenizer.type says what the tokenizer must be. It is opened before workers start, unless it is
/// the data's and was checked with it.
void check_tokenizer(const TokenizerConfig& wanted, const Vocabulary& vocabulary, TrainPlan& plan) {
  const std::string path = wanted.path.empty() ? vocabulary.tokenizer_folder : wanted.path;
  if (wanted.type == "auto" && (path.empty() || (wanted.path.empty() && vocabulary.is_sealed)))
    return;
  if (path.empty())
    throw Error(ErrorKind::kConfig,
                fmt::format("tokenizer.type = \"{}\", but there is no tokenizer: the data has no "
                            "manifest, and tokenizer.path is not set",
                            wanted.type),
                "set tokenizer.path to a folder with a tokenizer.json");
  const auto tokenizer = Tokenizer::open(path);
  const std::string kind(tokenizer->kind());
  if (wanted.type != "auto" && wanted.type != kind)
    throw Error(
        ErrorKind::kConfig,
        fmt::format("tokenizer.type = \"{}\", but {} is a {} tokenizer", wanted.type, path, kind),
        "leave tokenizer.type out, or prepare the data with the other one");
  const bool is_old = vocabulary.size > 0 && !vocabulary.is_sealed;
  if (is_old && wanted.path.empty() && vocabulary.size != tokenizer->vocab_size())
    throw Error(
        ErrorKind::kData,
        fmt::format("the data's manifest says vocab_size = {}, but its tokenizer in {} has {}",
                    vocabulary.size, path, tokenizer->vocab_size()),
        "prepare the data again");
  if (is_old && !tokenizer->ids_before().empty())
    plan.notices.push_back(notice(
        fmt::format("the data was prepared by an earlier version of hgtrain: its documents do not "
                    "begin with token {}, which its tokenizer puts before each text. Prepare it "
                    "again",
                    tokenizer->ids_before().front())));
}

/// The data's tokenizer is the one that is named, else the one of the model that training starts
/// from.
void check_same_tokenizer(const Config& config, const std::string& of_data) {
  const std::string& named = config.tokenizer.path;
  const std::string& init = config.model.init;
  const std::string other = !named.empty() ? named : has_tokenizer(init) ? init : "";
  if (of_data.empty() || other.empty() || is_same_tokenizer(of_data, other)) return;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("the data was prepared with another tokenizer ({}) than that of {}", of_data,
                  other),
      fmt::format("prepare the data with --tokenizer {}; or set tokenizer.path to {} if the "
                  "model is to learn that one",
                  shell_word(other), of_data));
}

/// If the model has no token that begins or ends a text, or one outside its vocabulary, sets it to
/// the documents'.
void complete_token(TrainPlan& plan, std::optional<std::int64_t>& of_model,
                    std::optional<std::int64_t> of_documents, std::string_view key,
                    std::string_view does) {
  if (!of_documents) return;
  if (!of_model || *of_model >= plan.config.model.vocab_size)
    of_model = of_documents;
  else if (of_model != of_documents)
    plan.notices.push_back(
        notice(fmt::format("the data's documents {0} with token {1}, but the model "
                           "expects texts that {0} with {2}: "
                           "set --model.{3} {1} to use the data's",
                           does, *of_documents, *of_model, key)));
}

/// The checkpoint that the flags resume from; "" if there is none.
std::string resumed_checkpoint(const TrainFlags& flags) {
  if (flags.resume == "none") return "";
  if (flags.resume != "auto") return flags.resume;
  if (const auto newest = newest_checkpoint(flags.run_dir)) return newest->path;
  require_whole_checkpoint(flags.run_dir);
  const auto origin = read_origin(flags.run_dir);
  return origin ? origin_folder(flags.run_dir, *origin) : "";
}

/// Uses the checkpoint `saved`, if there is one, in place of a model.init that cannot be read any
/// more.
void use_saved_model(const TrainFlags& flags, const std::string& saved,
                     std::vector<std::string>& overrides, std::vector<Problem>& notices) {
  if (saved.empty()) return;
  const LoadResult loaded = load_config_of(flags, {overrides, std::nullopt});
  const auto gone = std::ranges::find_if(loaded.problems, [](const Problem& problem) {
    return problem.severity == Severity::kError && problem.pointer == "/model/init";
  });
  if (gone == loaded.problems.end()) return;
  notices.push_back({Severity::kNotice,
                     fmt::format("{}; the model is that of {}", gone->message, saved), "",
                     gone->file, gone->line, gone->pointer});
  overrides.insert(overrides.end(), {"model.init", saved});
}

/// Uses the tokenizer of the checkpoint `saved`, if it has one, in place of one that was removed
/// since the run started.
void use_saved_tokenizer(const std::string& saved, TrainPlan& plan) {
  std::string& path = plan.config.tokenizer.path;
  if (path.empty() || path_exists(path) || !has_tokenizer(saved)) return;
  plan.notices.push_back(
      {Severity::kNotice,
       fmt::format("tokenizer.path = {} is gone: the tokenizer is that of {}", path, saved), "", "",
       0, ""});
  path = saved;
}

/// A run cannot go back to fewer steps than it has made.
void require_steps_left(std::int64_t train_iters, std::int64_t step) {
  if (step <= train_iters) return;
  throw Error(ErrorKind::kConfig,
              fmt::format("the run has already made {}, more than the {} asked for",
                          human_plural(step, "step"), train_iters),
              fmt::format("--steps (training.train_iters) counts all steps of the run: give more "
                          "than {}; or --resume an earlier checkpoint",
                          step));
}

/// Adds a notice if --resume auto takes an older checkpoint because a newer one is not whole.
void add_incomplete_notices(const TrainFlags& flags, const std::string& saved,
                            std::vector<Problem>& notices) {
  if (flags.resume != "auto") return;
  for (const std::string& folder : list_incomplete(flags.run_dir)) {
    if (folder < saved) break;
    notices.push_back(notice(fmt::format(
        "{} is skipped: it has no {}, so it is not a whole checkpoint", folder, kManifestName)));
  }
}

/// The largest number of workers that fits. If none does, all of them, so that an error says what
/// is wrong.
std::int64_t max_that_fits(std::int64_t workers, const std::function<bool(std::int64_t)>& fits) {
  for (std::int64_t fewer = workers; fewer > 0; --fewer)
    if (fits(fewer)) return fewer;
  return workers;
}

/// If the number of hosts is a range, adds the numbers in it that would fit.
void note_sizes_that_fit(const TrainFlags& flags, const std::function<bool(std::int64_t)>& fits,
                         Error& error) {
  const int min = min_hosts_of(flags.on_hosts);
  if (min == 0) return;
  const std::vector<JobHost> hosts = without_spares(hosts_of(flags));
  std::vector<int> numbers;
  std::int64_t workers = 0;
  for (int number = 1; number <= std::ssize(hosts); ++number) {
    workers += hosts[static_cast<std::size_t>(number - 1)].workers;
    if (number >= min && fits(workers)) numbers.push_back(number);
  }
  if (!numbers.empty())
    error.note(fmt::format("of {} to {} hosts, {} would fit: --num_nodes {}:{}", min, hosts.size(),
                           fmt::join(numbers, " or "), min, numbers.back()));
}

/// Opens the data as the workers will, and completes the config from it.
void complete_from_data(const TrainFlags& flags, TrainPlan& plan, const std::string& saved) {
  Config& config = plan.config;
  constexpr std::int64_t kAnyVocabulary = std::numeric_limits<std::int32_t>::max();
  const auto open = [&](Dataset::Split split) {
    try {
      return Dataset::open(config.data, config.training.seq_length, split, kAnyVocabulary);
    } catch (Error& error) {
      if (error.kind() == ErrorKind::kConfig && reaches_hosts(flags.on_hosts) &&
          !received_command())
        error.note(
            "the machine on which this is typed needs the data, too; with --detach, only the hosts "
            "do");
      throw;
    }
  };
  plan.epoch_samples = open(Dataset::Split::kTrain)->num_samples();
  set_epoch_samples(config, plan.epoch_samples);
  if (config.training.eval_interval > 0) open(Dataset::Split::kValid);
  const Vocabulary vocabulary = vocabulary_of(config.data);
  use_saved_tokenizer(saved, plan);
  check_tokenizer(config.tokenizer, vocabulary, plan);
  check_same_tokenizer(config, vocabulary.tokenizer_folder);
  // The model's folder may hold more of the same tokenizer: the template of its chats.
  if (config.tokenizer.path.empty())
    config.tokenizer.path =
        has_tokenizer(config.model.init) ? config.model.init : vocabulary.tokenizer_folder;
  if (!config.data.end_of_text && vocabulary.end_of_text >= 0)
    config.data.end_of_text = vocabulary.end_of_text;
  if (config.data.separate_documents && !config.data.end_of_text)
    throw Error(ErrorKind::kConfig,
                "data.separate_documents is on, but the data has no manifest that says which token "
                "its documents begin with",
                "set data.end_of_text to its id, in GPT-2's vocabulary 50256");
  if (config.model.vocab_size == 0) config.model.vocab_size = vocabulary.size;
  if (config.model.vocab_size == 0)
    throw Error(ErrorKind::kConfig,
                "model.vocab_size is not set, and the data has no manifest to take it from",
                "set model.vocab_size to the size of the tokenizer the data was made with, or "
                "prepare the text again: hgtrain data prepare");
  if (config.model.vocab_size < vocabulary.size)
    throw Error(ErrorKind::kConfig,
                fmt::format("model.vocab_size = {} is smaller than the data's vocabulary of {}",
                            config.model.vocab_size, vocabulary.size),
                "leave it out to take the data's");
  if (config.data.separate_documents && *config.data.end_of_text >= config.model.vocab_size)
    throw Error(ErrorKind::kConfig,
                fmt::format("data.end_of_text = {} is outside the vocabulary of {}",
                            *config.data.end_of_text, config.model.vocab_size),
                "it is the id of the token that documents begin with");
  ModelConfig& model = config.model;
  if (vocabulary.size > 0 && model.vocab_size / 2 >= vocabulary.size)
    plan.notices.push_back(notice(
        fmt::format("model.vocab_size = {}, but the data's tokenizer has only {} tokens: the model "
                    "learns nothing about the others",
                    model.vocab_size, vocabulary.size),
        "leave it out to take the data's"));
  complete_token(plan, model.eos_token_id, config.data.end_of_text, "eos_token_id", "end");
  if (vocabulary.begin_of_text >= 0)
    complete_token(plan, model.bos_token_id, vocabulary.begin_of_text, "bos_token_id", "begin");
}

/// The longest part of a path that exists.
std::filesystem::path part_that_exists(std::filesystem::path path) {
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

/// Says before the start that the disk is too small for a checkpoint.
void add_disk_notice(const std::string& run_dir, TrainPlan& plan) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path there = part_that_exists(fs::absolute(run_dir));
  const auto free = static_cast<std::int64_t>(fs::space(there, error).available);
  const std::int64_t needed = checkpoint_bytes(plan.config);
  if (!error && free < needed)
    plan.notices.push_back(notice(
        fmt::format("only {} are free for {}, but a checkpoint takes {}: the first save will fail",
                    human_bytes(free), run_dir, human_bytes(needed)),
        "free some, or name a folder on another disk: --run_dir DIR"));
}

/// Error(kConfig) if `copy`, the folder of checkpoint.copy_to, would be lost with the run folder,
/// or is seen here not to be a folder.
void check_copy_folder(const std::string& copy, const std::string& run_dir, bool is_here) {
  namespace fs = std::filesystem;
  const std::string hint = "name another folder in checkpoint.copy_to, on another disk";
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(copy), error);
  const fs::path run = error ? fs::path() : fs::weakly_canonical(fs::absolute(run_dir), error);
  if (error) return;  // the run will say why
  const fs::path from_run = whole.lexically_relative(run);
  if (from_run != "." && !from_run.empty() && *from_run.begin() != "..")  // ".": nothing is copied
    throw Error(ErrorKind::kConfig,
                fmt::format("checkpoint.copy_to {} lies in the run folder, with which it would be "
                            "lost",
                            copy),
                hint);
  const fs::path there = part_that_exists(whole);
  if (is_here && !fs::is_directory(there, error) && !error)
    throw Error(ErrorKind::kConfig,
                fmt::format("checkpoint.copy_to {}: {} is not a folder", copy, there.string()),
                hint);
}

/// The disk on which the folder is, or would be; nullopt if that cannot be seen.
std::optional<dev_t> disk_of(const std::string& folder) {
  std::error_code error;
  struct stat status {};
  if (::stat(part_that_exists(std::filesystem::absolute(folder, error)).c_str(), &status) != 0)
    return std::nullopt;
  return status.st_dev;
}

/// Says before the start that the folder of checkpoint.copy_to is on the run folder's disk.
void add_copy_notice(const std::string& run_dir, TrainPlan& plan) {
  const std::string& copy = plan.config.checkpoint.copy_to;
  const auto disk = disk_of(copy);
  if (disk && disk == disk_of(run_dir))
    plan.notices.push_back(notice(
        fmt::format("checkpoint.copy_to {} is on the disk of the run folder, with which it would "
                    "be lost",
                    copy),
        "name a folder on another disk"));
}

}  // namespace

LoadResult load_config_of(const TrainFlags& flags, const LoadOptions& options) {
  return flags.config_text ? load_config_text(*flags.config_text, flags.config, options)
                           : load_config(flags.config, options);
}

bool has_tokenizer(const std::string& folder) {
  return !folder.empty() && path_exists(folder + "/tokenizer.json");
}

std::string notice_lines(const std::vector<Problem>& notices) {
  std::string text;
  for (const Problem& notice : notices)
    text += fmt::format("hgtrain: note: {}{}{}\n", notice.message,
                        notice.where().empty() ? "" : " (" + notice.where() + ")",
                        notice.hint.empty() ? "" : "\n  hint: " + notice.hint);
  return text;
}

std::string default_run_dir(const std::string& config) {
  return "runs/" + (config == "-" ? "stdin" : std::filesystem::path(config).stem().string());
}

void add_short_flag(std::vector<std::string>& overrides, const std::string& flag,
                    const std::string& key, const std::string& value) {
  for (std::size_t i = 0; i + 1 < overrides.size(); i += 2)
    if (overrides[i] == key && overrides[i + 1] != value)
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} {} and --{} {} contradict each other", flag, value, key,
                              overrides[i + 1]),
                  "keep one of them");
  overrides.insert(overrides.end(), {key, value});
}

std::vector<std::string> all_overrides(const TrainFlags& flags,
                                       std::vector<std::string> overrides) {
  if (flags.steps)
    add_short_flag(overrides, "--steps", "training.train_iters", std::to_string(*flags.steps));
  if (!flags.device.empty()) add_short_flag(overrides, "--device", "hardware.device", flags.device);
  return overrides;
}

TrainPlan make_train_plan(const TrainFlags& flags, std::vector<std::string> overrides) {
  check_flags(flags);
  overrides = all_overrides(flags, std::move(overrides));
  const std::optional<std::int64_t> resumed_batch = flags.batch_size > 0 ? flags.batch_size
                                                    : flags.resume == "none"
                                                        ? std::nullopt
                                                        : batch_size_of_run(flags.run_dir);
  const auto load = [&](std::optional<std::int64_t> world) {
    LoadResult loaded = load_config_of(flags, {overrides, world, resumed_batch});
    loaded.throw_unless_trainable();
    return loaded;
  };
  const std::string saved = resumed_checkpoint(flags);
  std::vector<Problem> notices;
  add_incomplete_notices(flags, saved, notices);
  use_saved_model(flags, saved, overrides, notices);
  // If the devices determine the number of workers, batch sizes are checked only after these were
  // found.
  const auto counted = !hosts_of(flags).empty() ? std::nullopt
                       : flags.num_workers      ? flags.num_workers
                       : flags.num_gpus         ? flags.num_gpus
                                                : flags.workers_here;
  const LoadResult first = load(counted);
  const Devices devices = choose_devices(flags, first);
  const auto fits = [&](std::int64_t world) {
    return !load_config_of(flags, {overrides, world, resumed_batch}).has(Severity::kError);
  };
  std::int64_t workers = devices.workers;
  if (first.config.elasticity.enabled && !counted) workers = max_that_fits(workers, fits);
  if (workers < devices.workers)
    notices.push_back(
        notice(fmt::format("elasticity uses {} of {} workers", workers, devices.workers)));
  const LoadResult loaded = [&] {
    try {
      return load(workers);
    } catch (Error& error) {
      note_sizes_that_fit(flags, fits, error);
      throw;
    }
  }();
  std::ranges::move(notices_of(loaded, devices), std::back_inserter(notices));

  TrainPlan plan{loaded.config,
                 checked_cast<int>(workers, "the number of workers", ErrorKind::kConfig), 0,
                 std::move(notices), loaded};
  resolve_devices(loaded, devices, plan.config);
  if (!flags.gpu.empty() && !plan.config.hardware.oversubscribe)
    plan.config.hardware.gpu_bytes = known_gpu(flags.gpu).bytes;
  plan.config.parallelism.data_parallel_size =
      make_layout(plan.config.parallelism, plan.workers).data_size;
  if (!flags.dry_run || (plan.config.model.vocab_size == 0 && flags.is_data_here))
    complete_from_data(flags, plan, saved);
  const bool is_here = hosts_of(flags).empty();
  if (!flags.dry_run && is_here) add_disk_notice(flags.run_dir, plan);
  if (const std::string& copy = plan.config.checkpoint.copy_to; !copy.empty()) {
    check_copy_folder(copy, flags.run_dir, is_here && flags.is_data_here);
    if (is_here) add_copy_notice(flags.run_dir, plan);
  }
  // The epochs of a dry run are not counted in steps.
  if (const auto step = saved.empty() ? std::nullopt : saved_step(saved);
      step && plan.config.training.num_epochs == 0)
    require_steps_left(plan.config.training.train_iters, *step);
  return plan;
}

}  // namespace hgt
