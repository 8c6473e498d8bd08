
#include "hgtrain/machine/resources.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/wire/requests.h"

#include "check_flags.h"
#include "commands.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxMib = 1 << 20;

class BenchCopy final : public Command {
 public:
  std::string_view name() const override { return "bench copy"; }
  std::string_view summary() const override { return "measure how fast memory is copied"; }

  void add_options(Options& options) override {
    options.add("--device", device_, "cpu, or cuda: the first GPU")
        .one_of({"cpu", "cuda"})
        .show_default();
    options.add("--mib", mib_, "size of a copy, in MiB").show_default();
    options.add("--threads", threads_, "CPU threads at most; 0: all cores").show_default();
    options.add("--repeats", repeats_, "how often each is timed").show_default();
    options.add_flag("--json", json_, "print one JSON object instead");
  }

  int run(const std::vector<std::string>&) override {
    check_range("--mib", mib_, 1, kMaxMib);
    check_range("--threads", threads_, 0, 4096, "0 takes all cores");
    check_range("--repeats", repeats_, 1, 1'000'000);
    const std::int64_t bytes = mib_ << 20;
    if (device_ == "cuda") {
      const VisibleDevices visible = visible_gpus();
      require_gpu(visible);
      check_memory("--mib", 2 * bytes, visible.gpus[0]);
    }
    check_memory("--mib", 2 * bytes);
    const std::int64_t threads = threads_ > 0 ? threads_ : threads_per_worker(1);
    become_program(worker_argv(worker_program(), BenchCopyRequest{.device = device_,
                                                                  .bytes = bytes,
                                                                  .threads = threads,
                                                                  .repeats = repeats_,
                                                                  .json = json_}));
  }

 private:
  std::string device_ = "cpu";
  std::int64_t mib_ = 256, threads_ = 0, repeats_ = 10;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> bench_copy_command() {
  return std::make_unique<BenchCopy>();
}

}  // namespace hgt
