#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/requests.h"

#include "check_flags.h"
#include "commands.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

/// Replaces this process by hgtrain-worker, which runs the model and gets standard input and
/// output, signals and the exit status.
class Generate final : public Command {
 public:
  std::string_view name() const override { return "generate"; }
  std::string_view summary() const override {
    return "continue a text with a checkpoint or a Hugging Face model folder";
  }

  void add_options(Options& options) override {
    options.add("--model", model_, "checkpoint, run folder, or HF model folder").required();
    options.add("--prompt", prompt_, "text to continue; - reads it from standard input").required();
    options.add("--max_tokens", max_tokens_, "largest number of new tokens").show_default();
    options.add("--temperature", temperature_, "0: always the likeliest token").show_default();
    options.add("--top_k", top_k_, "draw from the k likeliest tokens; 0: from all").show_default();
    options.add("--top_p", top_p_, "draw from the fewest tokens whose probabilities sum to this")
        .show_default();
    options.add("--seed", seed_, "the same seed draws the same text")
        .show_default()
        .type_name("UINT");
    options.add("--device", device_, "cpu, or cuda: the first GPU; auto: that, if there is one")
        .show_default()
        .one_of({"auto", "cpu", "cuda"});
    options.add("--dtype", dtype_, "type of the weights and of what is computed")
        .show_default()
        .one_of({"fp32", "bf16", "fp16"});
    options.add("--threads", threads_, "CPU threads; 0: all cores").show_default();
    options.add_flag("--ema", ema_, "use the moving average of the weights (training.ema_decay)");
    options.add_flag("--no_prompt", no_prompt_, "print only what is new");
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>&) override {
    check_range("--max_tokens", max_tokens_, 0, kMaxCount);
    check_range("--threads", threads_, 0, 4096, "0 takes all cores");
    check_finite("--temperature", temperature_);
    check_finite("--top_p", top_p_);
    become_program(
        worker_argv(worker_program(), GenerateRequest{.model = model_,
                                                      .prompt = prompt_,
                                                      .output = json_        ? "json"
                                                                : no_prompt_ ? "continuation"
                                                                             : "text",
                                                      .weights = ema_ ? "ema" : "model",
                                                      .device = choose_device(),
                                                      .dtype = dtype_,
                                                      .max_tokens = max_tokens_,
                                                      .threads = threads_,
                                                      .temperature = temperature_,
                                                      .top_k = top_k_,
                                                      .top_p = top_p_,
                                                      .seed = seed()}));
  }

 private:
  static constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

  static void check_finite(const char* flag, double value) {
    if (!std::isfinite(value))
      throw Error(ErrorKind::kConfig, fmt::format("{} {} is not a finite number", flag, value));
  }
  std::uint64_t seed() const {
    std::uint64_t value = 0;
    const char* const end = seed_.data() + seed_.size();
    const auto [parsed, error] = std::from_chars(seed_.data(), end, value);
    if (error != std::errc() || parsed != end)
      throw Error(ErrorKind::kConfig,
                  fmt::format("--seed {} is not a whole number from 0 on", seed_));
    return value;
  }
  std::string choose_device() const {
    if (device_ == "cpu") return device_;
    const VisibleDevices visible = visible_gpus();
    if (device_ == "auto" && visible.gpus.empty()) return "cpu";
    require_gpu(visible);
    return "cuda";
  }

  std::string model_, prompt_, device_ = "auto", dtype_ = "fp32";
  std::string seed_ = "0";  // CLI11 would wrap a negative number around
  std::int64_t max_tokens_ = 200, top_k_ = 50, threads_ = 0;
  double temperature_ = 0.8, top_p_ = 1.0;
  bool ema_ = false, no_prompt_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> generate_command() {
  return std::make_unique<Generate>();
}

}  // namespace hgt
