#include <optional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/requests.h"

#include "bench_shapes.h"
#include "check_flags.h"
#include "commands.h"
#include "gpu_precision.h"
#include "train_plan.h"
#include "worker_program.h"

namespace hgt {
namespace {

/// `bench train`, `bench gemm` and `bench ops`: becomes hgtrain-worker, which measures, or starts
/// several.
class Bench final : public Command {
 public:
  struct What {
    const char *name, *summary, *repeats, *repeats_help;
    bool has_dtype = true;  ///< else it measures several
    bool has_workers = false;
  };
  explicit Bench(const What& what) : what_(what) {}
  std::string_view name() const override { return what_.name; }
  std::string_view summary() const override { return what_.summary; }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(CLI::App& app) override {
    app.add_option("--shape", shape_, "small, 124m, or a config file")->capture_default_str();
    if (what_.has_dtype)
      app.add_option("--dtype", dtype_, "fp32, bf16 or fp16 (default: the shape's)")
          ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
    app.add_option("--device", device_, "cpu, or cuda: the first GPU")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--threads", threads_, "CPU threads; 0: all cores")->capture_default_str();
    if (what_.has_workers) {
      app.add_option("--num_workers", num_workers_,
                     "workers on this machine's CPU (default: one, or two with --stages)");
      app.add_option("--stages", stages_,
                     "stages of ZeRO to compare, such as 0,1,3 (default: the config's alone)");
    }
    app.add_option(what_.repeats, repeats_, what_.repeats_help)->capture_default_str();
    app.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>& overrides) override {
    check_range(what_.repeats, repeats_, 1, 1'000'000, "the more, the steadier the median");
    check_range("--threads", threads_, 0, 4096, "0 takes all cores");
    if (num_workers_ || !stages_.empty()) return compare_stages(overrides);
    const LoadResult job = bench_job(shape_, dtype_, overrides);
    Config config = job.config;
    if (threads_ > 0) config.hardware.threads = threads_;
    if (config.hardware.threads == 0) config.hardware.threads = threads_per_worker(1);
    config.hardware.device = device_;
    if (device_ == "cuda") {
      const VisibleDevices visible = visible_gpus();
      require_gpu(visible);
      settle_precision(job, visible.gpus.front().compute_capability, config.precision);
    }
    const std::string which = std::string(what_.name).substr(std::string_view("bench ").size());
    become_worker(worker_argv(
        worker_program(),
        BenchRequest{
            .what = which, .repeats = repeats_, .json = json_, .config = to_json(config).dump()}));
  }

 private:
  int compare_stages(const std::vector<std::string>& overrides) const {
    const int workers = num_workers_.value_or(2);
    check_range("--num_workers", workers, 2, 1024, "leave it out for one");
    if (device_ == "cuda")
      throw Error(ErrorKind::kConfig, "--num_workers and --stages measure workers on the CPU alone",
                  "leave out --device cuda");
    nlohmann::ordered_json configs = nlohmann::ordered_json::array();
    std::int64_t bytes = 0;
    for (const std::vector<std::string>& stage : stage_overrides(overrides)) {
      Config config = bench_job(shape_, dtype_, stage, workers).config;
      if (threads_ > 0) config.hardware.threads = threads_;
      if (config.hardware.threads == 0) config.hardware.threads = threads_per_worker(workers);
      config.hardware.device = device_;
      bytes += total_bytes(memory_table(config, static_cast<int>(config.hardware.threads)));
      configs.push_back(to_json(config));
    }
    check_memory("--num_workers", workers * bytes);
    return print_result_of_job(
        worker_argv(
            worker_program(),
            BenchStagesRequest{.configs = configs.dump(), .steps = repeats_, .json = json_}),
        workers);
  }

  /// The overrides of each config to compare.
  std::vector<std::vector<std::string>> stage_overrides(
      const std::vector<std::string>& given) const {
    if (stages_.empty()) return {given};
    std::vector<std::vector<std::string>> out;
    for (std::size_t i = 0; i < stages_.size(); i += 2) {
      const char stage = stages_[i];
      const bool ends = i + 1 == stages_.size();
      if (stage < '0' || stage > '3' ||
          (!ends && (stages_[i + 1] != ',' || i + 2 == stages_.size())))
        throw Error(ErrorKind::kConfig, fmt::format("--stages {} is no list of stages", stages_),
                    "stages are 0 to 3, with commas between them: --stages 0,1,3");
      out.push_back(given);
      out.back().insert(out.back().end(), {"zero_optimization.stage", std::string(1, stage)});
    }
    return out;
  }

  const What what_;
  std::string shape_ = "small", dtype_, device_ = "cpu";
  std::optional<int> num_workers_;
  std::string stages_;
  std::int64_t threads_ = 0, repeats_ = 10;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> bench_train_command() {
  return std::make_unique<Bench>(Bench::What{
      .name = "bench train",
      .summary =
          "measure how fast a model trains here, and how close that is to the machine's limit",
      .repeats = "--steps",
      .repeats_help = "steps that are timed, after two that warm up",
      .has_workers = true});
}

std::unique_ptr<Command> bench_gemm_command() {
  return std::make_unique<Bench>(Bench::What{"bench gemm",
                                             "measure how fast a model's matrix products are",
                                             "--repeats", "times that each is timed", false});
}

std::unique_ptr<Command> bench_ops_command() {
  return std::make_unique<Bench>(
      Bench::What{"bench ops", "measure how fast each op of a training step is", "--steps",
                  "steps whose ops are timed, after two that warm up"});
}

}  // namespace hgt
