#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/load.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/requests.h"

#include "check_flags.h"
#include "commands.h"
#include "gpu_precision.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

constexpr std::string_view kSmall = R"({
  "train_micro_batch_size_per_gpu": 8,
  "model": {"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256,
            "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0},
)";
constexpr std::string_view k124m = R"({
  "train_micro_batch_size_per_gpu": 2,
  "model": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
            "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0},
)";
constexpr std::string_view kBoth = R"(
  "gradient_clipping": 0,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
  "training": {"seq_length": 256}
})";

LoadResult load_shape(const std::string& shape, const LoadOptions& options) {
  if (shape == "small") return load_config_text(std::string(kSmall) += kBoth, "small", options);
  if (shape == "124m") return load_config_text(std::string(k124m) += kBoth, "124m", options);
  if (!path_exists(shape, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("{} is neither a shape nor a file", shape),
                "use --shape small, --shape 124m, or the path of a config file");
  return load_config(shape, options);
}

/// A job in `dtype` ("" keeps the config's): "small" or "124m", whose sizes are in the help pages,
/// or a config file. No data is opened.
LoadResult load(const std::string& shape, const std::string& dtype,
                std::vector<std::string> overrides, std::optional<std::int64_t> workers) {
  if (!dtype.empty())
    for (const char* section : {"bf16", "fp16"})
      overrides.insert(overrides.end(),
                       {fmt::format("{}.enabled", section), dtype == section ? "true" : "false"});
  return load_shape(shape,
                    {.overrides = overrides, .world_size = workers, .trains_on_data = false});
}

/// The job that a bench measures. Error(kConfig) if it cannot be trained by that many workers, or
/// does not say how large the vocabulary is. `layout`: the flag ("--layouts tp3") that errors name
/// in place of the overrides, which nobody typed.
LoadResult bench_job(const std::string& shape, const std::string& dtype,
                     const std::vector<std::string>& overrides, std::int64_t workers = 1,
                     const std::string& layout = "") {
  LoadResult loaded = load(shape, dtype, overrides, workers);
  if (!layout.empty())
    for (Problem& problem : loaded.problems)
      if (problem.file.empty() && !problem.pointer.empty()) {
        problem.message = fmt::format("{}: {}", layout, problem.message);
        problem.pointer.clear();
      }
  loaded.throw_unless_trainable();
  if (loaded.config.model.vocab_size == 0)
    throw Error(ErrorKind::kConfig,
                "model.vocab_size is not set, and a bench opens no data to take it from",
                "add --model.vocab_size N");
  loaded.config.checkpoint.async_save = false;  // nothing is saved
  return loaded;
}

/// `bench train`, `bench gemm` and `bench ops`: becomes hgtrain-worker, which measures, or starts
/// several.
class Bench final : public Command {
 public:
  struct What {
    const char *name, *summary, *repeats, *repeats_help;
    bool has_dtype = true;  ///< else it measures several
    bool has_workers = false;
    bool has_plan = false;
  };
  explicit Bench(const What& what) : what_(what) {}
  std::string_view name() const override { return what_.name; }
  std::string_view summary() const override { return what_.summary; }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    options.add("--shape", shape_, "small, 124m, or a config file").show_default();
    if (what_.has_dtype)
      options.add("--dtype", dtype_, "fp32, bf16 or fp16 (default: the shape's)")
          .one_of({"fp32", "bf16", "fp16"});
    options.add("--device", device_, "cpu, or cuda: the first GPU")
        .one_of({"cpu", "cuda"})
        .show_default();
    options.add("--threads", threads_, "CPU threads; 0: all cores").show_default();
    if (what_.has_workers) {
      options.add("--num_workers", num_workers_,
                  "workers on this machine's CPU (default: one, or two with --layouts)");
      options.add("--layouts", layouts_,
                  "layouts to compare, such as dp,zero3,pp2,one (default: the config's alone)");
    }
    options.add(what_.repeats, repeats_, what_.repeats_help).show_default();
    if (what_.has_plan)
      options.add_flag(
          "--plan", plan_,
          "measure nothing: print what nvcc made of the CUDA kernels, and their occupancy");
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>& overrides) override {
    check_range(what_.repeats, repeats_, 1, 1'000'000, "");
    check_range("--threads", threads_, 0, 4096, "0 takes all cores");
    if (num_workers_ || !layouts_.empty()) return compare_layouts(overrides);
    if (plan_ && (device_ != kDevice || threads_ != 0 || repeats_ != kRepeats))
      throw Error(ErrorKind::kConfig, "--plan measures nothing",
                  "leave out --device, --threads and --steps");
    if (plan_) plan_kernels(overrides);
    const LoadResult job = bench_job(shape_, dtype_, overrides);
    Config config = job.config;
    set_hardware(1, config.hardware);
    if (device_ == "cuda") {
      const VisibleDevices visible = visible_gpus();
      require_gpu(visible);
      resolve_precision(job, visible.gpus.front().compute_capability, config.precision);
    }
    const std::string measured = std::string(what_.name).substr(std::string_view("bench ").size());
    if (measured != "gemm" && device_ == "cpu") check_memory("--shape", worker_bytes(config));
    become_worker(measured, config);
  }

 private:
  [[noreturn]] void become_worker(const std::string& what, const Config& config) const {
    become_program(worker_argv(
        worker_program(),
        BenchRequest{
            .what = what, .repeats = repeats_, .json = json_, .config = to_json(config).dump()}));
  }

  /// The table depends only on the type in which the GPUs that it is about compute, whatever number
  /// of them.
  [[noreturn]] void plan_kernels(const std::vector<std::string>& overrides) const {
    constexpr int kOldest = 80;
    const LoadResult job = load(shape_, dtype_, overrides, std::nullopt);
    job.throw_unless_trainable();
    Config config = job.config;
    resolve_precision(job, kOldest, config.precision);
    become_worker("plan_ops", config);
  }

  int compare_layouts(const std::vector<std::string>& overrides) const {
    const int workers = num_workers_.value_or(2);
    check_range("--num_workers", workers, 2, 1024, "leave it out for one");
    if (device_ == "cuda")
      throw Error(ErrorKind::kConfig,
                  "--num_workers and --layouts measure workers on the CPU alone",
                  "leave out --device cuda");
    nlohmann::ordered_json configs = nlohmann::ordered_json::array();
    std::int64_t bytes = 0;
    for (const Config& config : layout_configs(overrides, workers)) {
      bytes += worker_bytes(config);
      configs.push_back(to_json(config));
    }
    check_memory("--num_workers", workers * bytes);
    return print_result_of_job(
        worker_argv(
            worker_program(),
            BenchLayoutsRequest{.configs = configs.dump(), .steps = repeats_, .json = json_}),
        workers);
  }

  /// The config of each layout to compare; all of them train on the same batch.
  std::vector<Config> layout_configs(const std::vector<std::string>& given, int workers) const {
    std::vector<Config> out = {job_of(given, workers)};
    if (layouts_.empty()) return out;
    const BatchConfig batch = out.front().batch;
    out.clear();
    for (const std::string& layout : split(layouts_, ',')) {
      std::vector<std::string> overrides = given;
      const auto set = [&](const std::string& key, const std::string& value) {
        overrides.insert(overrides.end(), {key, value});
      };
      set("train_batch_size", std::to_string(batch.train_batch_size));
      set("train_micro_batch_size_per_gpu", std::to_string(batch.micro_batch_size));
      set("gradient_accumulation_steps", "auto");
      for (const std::string& part : split(layout, '+')) set_part(part, set);
      out.push_back(job_of(overrides, layout == "one" ? 1 : workers, "--layouts " + layout));
    }
    return out;
  }
  Config job_of(const std::vector<std::string>& overrides, int workers,
                const std::string& layout = "") const {
    Config config = bench_job(shape_, dtype_, overrides, workers, layout).config;
    set_hardware(num_workers_.value_or(2), config.hardware);
    return config;
  }
  /// Of each of the workers that measure at the same time.
  void set_hardware(int workers, HardwareConfig& hardware) const {
    if (threads_ > 0) hardware.threads = threads_;
    if (hardware.threads == 0) hardware.threads = threads_per_worker(workers);
    hardware.device = device_;
  }
  /// "dp" and "one" set nothing.
  template <class Set>
  void set_part(const std::string& part, const Set& set) const {
    constexpr std::pair<std::string_view, const char*> kSizes[] = {
        {"zero", "zero_optimization.stage"},
        {"pp", "parallelism.pipeline_parallel_size"},
        {"vpp", "parallelism.virtual_pipeline_stages"},
        {"tp", "parallelism.tensor_parallel_size"},
        {"cp", "parallelism.context_parallel_size"}};
    if (part == "dp" || part == "one") return;
    if (part == "gpipe" || part == "1f1b" || part == "interleaved" || part == "zb_h1")
      return set("parallelism.pipeline_schedule", part);
    if (part == "sp") return set("parallelism.sequence_parallel", "true");
    for (const auto& [prefix, key] : kSizes)
      if (part.starts_with(prefix) && part.size() > prefix.size() &&
          part.find_first_not_of("0123456789", prefix.size()) == part.npos)
        return set(key, part.substr(prefix.size()));
    throw Error(ErrorKind::kConfig,
                fmt::format("--layouts {}: '{}' is not a layout", layouts_, part),
                "one, dp, zero1 to zero3, ppN, tpN, tpN+sp, cpN, a schedule such as zb_h1, or "
                "several of them as in pp2+zero1, with commas between layouts");
  }
  static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> out(1);
    for (const char c : text)
      if (c == at)
        out.emplace_back();
      else
        out.back() += c;
    return out;
  }

  const What what_;
  static constexpr const char* kDevice = "cpu";
  static constexpr std::int64_t kRepeats = 10;
  std::string shape_ = "small", dtype_, device_ = kDevice;
  std::optional<int> num_workers_;
  std::string layouts_;
  std::int64_t threads_ = 0, repeats_ = kRepeats;
  bool plan_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> bench_train_command() {
  return std::make_unique<Bench>(Bench::What{
      .name = "bench train",
      .summary =
          "measure how fast a model trains here, and how close that is to the machine's limit; "
          "compare layouts",
      .repeats = "--steps",
      .repeats_help = "steps that are timed, after two that warm up",
      .has_workers = true});
}

std::unique_ptr<Command> bench_gemm_command() {
  return std::make_unique<Bench>(Bench::What{"bench gemm",
                                             "measure how fast a model's matrix products are",
                                             "--repeats", "how often each is timed", false});
}

std::unique_ptr<Command> bench_ops_command() {
  return std::make_unique<Bench>(
      Bench::What{.name = "bench ops",
                  .summary = "measure how fast each op of a training step is",
                  .repeats = "--steps",
                  .repeats_help = "steps whose ops are timed, after two that warm up",
                  .has_plan = true});
}

}  // namespace hgt
