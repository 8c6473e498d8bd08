#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "hgtrain/arch/flops.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/compute_stream.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/machine_rates.h"
#include "hgtrain/train/process_memory.h"

#include "about.h"
#include "products.h"
#include "spread.h"
#include "synthetic_run.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// The products of a step's linear layers, timed one by one.
class TimedProducts {
 public:
  TimedProducts(const Config& config, Stream stream)
      : products_(weight_products(config)),
        runner_(products_, config.precision.compute_dtype(), stream),
        ms_(products_.size()) {}

  void time_each() {
    for (std::size_t i = 0; i < products_.size(); ++i) ms_[i].push_back(runner_.run(products_[i]));
  }
  /// The time of a step that consists of these products: for each, its number in a step times its
  /// median time.
  double step_ms() const {
    double ms = 0;
    for (std::size_t i = 0; i < products_.size(); ++i)
      ms += calls(products_[i]) * spread_of(ms_[i]).median;
    return ms;
  }
  Json json() const {
    Json out = Json::array();
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const Product& p = products_[i];
      const Spread ms = spread_of(ms_[i]);
      out.push_back({{"product", p.name},
                     {"m", p.m},
                     {"n", p.n},
                     {"k", p.k},
                     {"calls_per_step", calls(p)},
                     {"ms", to_json(ms)},
                     {"flops_per_sec", p.flops() / (ms.median * 1e-3)},
                     {"kernel", runner_.kernel(p)}});
    }
    return out;
  }

 private:
  static double calls(const Product& p) { return p.step_flops / p.flops(); }

  const std::vector<Product> products_;
  const ProductRunner runner_;
  std::vector<std::vector<double>> ms_;  ///< of each product
};

}  // namespace

Json bench_train(const Config& config, std::int64_t steps, std::int64_t process_start_ns) {
  const std::int64_t bytes_before = process_memory().bytes;
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  tell("hgtrain: making the model, then {} to warm up\n", human_plural(kWarmUpSteps, "step"));
  std::optional<SyntheticRun> run(std::in_place, config, *comm);
  run->step();
  const double first_step_ms = ms_since(process_start_ns);
  for (int i = 1; i < kWarmUpSteps; ++i) run->step();
  const std::int64_t peak_bytes = memory_in_use(run->stream()).peak_bytes;
  const double peak = measure_matrix_rate(run->stream(), config.precision.compute_dtype());
  const Config planned = run->config();
  const std::int64_t parameters = run->table().num_parameters;
  Json out = about("train", config, run->stream(), run->attention());

  // On the CPU, steps and products alternate, so that other load on the machine affects both. On a
  // GPU, steps follow each other without a gap, and products come after the run, because a large
  // model may leave no room for their operands.
  std::optional<ComputeStream> device;  // of the products, if not the run's
  std::optional<TimedProducts> products;
  if (run->stream().device().is_cpu()) products.emplace(planned, run->stream());
  tell("hgtrain: measuring {}{}\n", human_plural(steps, "step"),
       products ? " and their matrix products" : "");
  run->step();  // not timed: its time would include that of the measurements above
  std::vector<double> step_ms;
  for (std::int64_t i = 0; i < steps; ++i) {
    step_ms.push_back(run->step());
    if (products) products->time_each();
  }
  const StepResult last = run->finished();
  if (!products) {
    tell("hgtrain: measuring their matrix products\n");
    run.reset();
    device.emplace(/*cuda=*/true, static_cast<int>(config.hardware.threads),
                   config.training.deterministic);
    if (!config.times_products()) set_product_timing(device->get().queue(), ProductTiming::kNone);
    products.emplace(planned, device->get());
    for (std::int64_t i = 0; i < steps; ++i) products->time_each();
  }

  const Spread ms = spread_of(step_ms);
  const std::int64_t tokens = config.batch.train_batch_size * config.training.seq_length;
  const auto tokens_per_sec = [&](double ms) { return static_cast<double>(tokens) / ms * 1e3; };
  const double limit_ms = products->step_ms();
  out["steps"] = steps;
  out["last_step"] = {{"step", last.step}, {"loss", last.loss}, {"grad_norm", last.grad_norm}};
  out["parameters"] = parameters;
  out["tokens_per_step"] = tokens;
  out["step_ms"] = to_json(ms);
  out["tokens_per_sec"] =
      to_json({tokens_per_sec(ms.median), tokens_per_sec(ms.p90), tokens_per_sec(ms.p10)});
  out["gemm_limit_ms"] = limit_ms;
  out["gemm_limit_tokens_per_sec"] = tokens_per_sec(limit_ms);
  out["share_of_gemm_limit"] = limit_ms / ms.median;
  out["peak_flops_per_sec"] = peak;
  out["mfu"] =
      train_flops(config.model, config.training.seq_length, tokens) / (ms.median * 1e-3 * peak);
  out["first_step_ms"] = first_step_ms;
  out["start_ms"] = std::max(0.0, first_step_ms - ms.median);
  out["peak_rss_bytes"] = peak_bytes;
  out["rss_before_bytes"] = bytes_before;
  out["planned_bytes"] = worker_bytes(planned);
  out["products"] = products->json();
  return out;
}

}  // namespace hgt
