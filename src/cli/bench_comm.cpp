#include <optional>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/hosts.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/requests.h"

#include "check_flags.h"
#include "commands.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

class BenchComm final : public Command {
 public:
  std::string_view name() const override { return "bench comm"; }
  std::string_view summary() const override {
    return "measure collectives between workers, by size";
  }

  void add_options(Options& options) override {
    options.add("--num_workers", num_workers_, "workers on this machine's CPU (default: 2)");
    options.add("--num_gpus", num_gpus_, "workers, each on its own GPU");
    options.add_flag("--oversubscribe", oversubscribe_, "with --num_gpus: workers may share a GPU");
    options
        .add("--backend", backend_,
             "auto (NCCL on GPUs; else shared memory if it works, else TCP), or gloo (TCP)")
        .one_of({"auto", "gloo"})
        .show_default();
    options.add("--op", op_, "all_reduce, reduce_scatter, all_gather or broadcast")
        .one_of({"all_reduce", "reduce_scatter", "all_gather", "broadcast"})
        .show_default();
    options.add("--min_bytes", min_bytes_, "the first size, in bytes; each next is twice as large")
        .show_default();
    options.add("--max_bytes", max_bytes_, "no size is larger, in bytes").show_default();
    options.add("--repeats", repeats_, "how often each size is timed").show_default();
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>&) override {
    check_flags();
    const BenchCommRequest request{.device = num_gpus_ ? "cuda" : "cpu",
                                   .oversubscribe = oversubscribe_,
                                   .backend = backend_,
                                   .op = op_,
                                   .min_bytes = min_bytes_,
                                   .max_bytes = max_bytes_,
                                   .repeats = repeats_,
                                   .json = json_};
    return print_result_of_job(worker_argv(worker_program(), request), workers());
  }

 private:
  int workers() const { return num_gpus_.value_or(num_workers_.value_or(2)); }
  void check_flags() const {
    require_one_count(num_gpus_, num_workers_);
    if (oversubscribe_ && !num_gpus_)
      throw Error(ErrorKind::kConfig, "--oversubscribe needs --num_gpus",
                  "workers on the CPU share it anyway");
    check_range(num_gpus_ ? "--num_gpus" : "--num_workers", workers(), 2, kMaxWorkersOfHost);
    check_range("--min_bytes", min_bytes_, 4, std::int64_t{1} << 40);
    check_range("--max_bytes", max_bytes_, min_bytes_, std::int64_t{1} << 40);
    check_range("--repeats", repeats_, 1, 1'000'000);
    if (min_bytes_ % 4 != 0)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("--min_bytes {} is not a multiple of 4, the size of an fp32", min_bytes_),
          fmt::format("use --min_bytes {}", min_bytes_ / 4 * 4));
    if (num_gpus_) {
      const VisibleDevices visible = visible_gpus();
      require_gpus(oversubscribe_ ? 1 : *num_gpus_, visible);
      const auto gpus = oversubscribe_ ? std::ssize(visible.gpus) : *num_gpus_;
      const std::int64_t on_one = (*num_gpus_ + gpus - 1) / gpus;
      check_memory("--max_bytes", on_one * max_bytes_, visible.gpus[0]);
    }
    check_memory("--max_bytes", workers() * max_bytes_);  // each has a copy in the host's memory
  }

  std::optional<int> num_workers_, num_gpus_;
  bool oversubscribe_ = false;
  std::string backend_ = "auto", op_ = "all_reduce";
  std::int64_t min_bytes_ = 1024, max_bytes_ = 16 << 20, repeats_ = 20;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> bench_comm_command() {
  return std::make_unique<BenchComm>();
}

}  // namespace hgt
