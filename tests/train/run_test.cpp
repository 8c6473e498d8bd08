#include "hgtrain/train/run.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/run_checkpoints.h"

#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

/// A run folder, token files and a config that trains on them for six steps.
struct Job {
  Job() {
    std::vector<std::uint16_t> tokens;
    for (int i = 0; i < 2000; ++i) tokens.push_back(static_cast<std::uint16_t>((i * i / 3) % 16));
    std::ofstream(folder / "data.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * 2));
    config.data.train = {{folder / "data.bin", 1.0}};
    config.data.valid_fraction = 0.2;
    config.data.token_dtype = "uint16";
    config.batch = {.train_batch_size = 4, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
    config.training.train_iters = 6;
    config.training.seq_length = 8;
    config.training.eval_interval = 3;
    config.training.eval_iters = 1;
  }

  RunOutcome run(Communicator& comm, const std::string& resume = "none") {
    return TrainingRun(config, {.run_dir = folder.path(), .resume = resume}, comm, channel,
                       requests)
        .train();
  }
  RunOutcome run(const std::string& resume = "none") {
    return run(*make_self_communicator(), resume);
  }

  /// The column `key` of the metrics; nulls are left out.
  std::vector<double> metrics(const std::string& key) const {
    std::vector<double> values;
    std::ifstream in(folder / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto record = parse_json<nlohmann::json>(line);
      if (record.contains(key) && !record[key].is_null()) values.push_back(record[key]);
    }
    return values;
  }

  TemporaryFolder folder;
  Config config = tiny_config();
  MemoryChannel channel;
  Requests requests;
};

/// A device that fails in its third sum, as the communicator, if that says why.
class Failing : public Communicator {
 public:
  explicit Failing(std::optional<Error> why) : why_(std::move(why)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::uint64_t start_broadcast(std::span<std::byte>, int) override { return 0; }
  void barrier() override {}
  std::uint64_t start_all_reduce_sum(std::span<std::byte>, DType) override {
    if (++sequence_ == 3) throw Error(ErrorKind::kDevice, "CUDA: unspecified launch failure");
    return sequence_;
  }
  std::uint64_t start_reduce_scatter_sum(std::span<std::byte>, DType,
                                         std::span<const OwnedRange>) override {
    return sequence_;
  }
  std::uint64_t start_all_gather(std::span<std::byte>, std::span<const OwnedRange>) override {
    return sequence_;
  }
  void wait(std::uint64_t) override {}
  void make_wait(std::uint64_t, const CudaQueue&) override {}
  void come_after(const CudaQueue&) override {}
  void check() override {
    if (sequence_ == 3 && why_) throw Error(*why_);
  }
  std::uint64_t reduced_bytes() const override { return 0; }
  std::uint64_t gathered_bytes() const override { return 0; }
  std::uint64_t sequence() const override { return sequence_; }
  void abort() noexcept override {}

 private:
  const std::optional<Error> why_;
  std::uint64_t sequence_ = 0;
};

/// The error of a job on that communicator.
std::string failure(Communicator& comm) {
  Job job;
  try {
    job.run(comm);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}
std::string failure(std::optional<Error> why) {
  Failing comm(std::move(why));
  return failure(comm);
}

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

TEST_CASE("if the device fails because of a peer, the error is the communicator's") {
  CHECK(failure(std::nullopt) == "CUDA: unspecified launch failure");
  CHECK(failure(Error(ErrorKind::kPeer, "NCCL: rank 1 is gone")) == "NCCL: rank 1 is gone");
  CHECK(failure(Error(ErrorKind::kDevice, "NCCL: CUDA failed")) ==
        "CUDA: unspecified launch failure");
}

TEST_CASE("a run that failed keeps what it holds until it is destroyed") {
  Job job;
  job.config.hardware.threads = 4;
  Failing comm(std::nullopt);
  const std::ptrdiff_t before = threads();
  {
    TrainingRun run(job.config, {.run_dir = job.folder.path()}, comm, job.channel, job.requests);
    CHECK_THROWS_AS(run.train(), Error);
    CHECK(threads() >= before + 3);
  }
  CHECK(threads() == before);
}

TEST_CASE("an exception that is not an Error becomes one") {
  struct Odd final : public Failing {
    using Failing::Failing;
    std::uint64_t start_all_reduce_sum(std::span<std::byte>, DType) override {
      throw std::bad_alloc();
    }
  };
  Odd comm(std::nullopt);
  CHECK(failure(comm) == "out of memory: the system gave this process no more");
}

TEST_CASE("a checkpoint that is asked for in a step that saves anyway is not saved again later") {
  struct Asking final : public MemoryChannel {
    explicit Asking(Requests& requests) : requests(requests) {}
    void send(const std::string& kind, const nlohmann::json& body) override {
      if (kind == "metrics" && body["step"] == 1) requests.checkpoint = true;
    }
    Requests& requests;
  };
  Job job;
  job.config.checkpoint.save_interval = 2;
  job.config.training.train_iters = 5;
  Asking channel(job.requests);
  const auto comm = make_self_communicator();
  TrainingRun(job.config, {.run_dir = job.folder.path()}, *comm, channel, job.requests).train();
  CHECK(list_checkpoints(job.folder.path()).size() == 3);  // of steps 2, 4 and 5
}

TEST_CASE("a run takes its steps, evaluates, and saves the last one") {
  Job job;
  const RunOutcome outcome = job.run();
  CHECK_FALSE(outcome.stopped_early);
  CHECK(job.metrics("step") == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(job.metrics("eval_loss").size() == 2);
  CHECK(job.metrics("loss").back() < job.metrics("loss").front());
  CHECK(list_checkpoints(job.folder.path()) ==
        std::vector<std::string>{job.folder / "checkpoints/step_00000006"});
}

TEST_CASE("a run that is stopped saves, and resumed it is the run that was not") {
  Job whole, stopped;
  whole.run();
  stopped.requests.stop = true;
  const RunOutcome outcome = stopped.run();
  CHECK(outcome.stopped_early);
  CHECK(outcome.reason == "stopped after step 1");
  stopped.requests.stop = false;
  stopped.run("auto");
  CHECK(stopped.metrics("loss") == whole.metrics("loss"));
  CHECK(stopped.metrics("eval_loss") == whole.metrics("eval_loss"));
}

TEST_CASE("a finished run that is resumed does nothing") {
  Job job;
  job.run();
  const auto losses = job.metrics("loss");
  CHECK_FALSE(job.run("auto").stopped_early);
  CHECK(job.metrics("loss") == losses);
}

TEST_CASE("two ranks leave one set of metrics, with the losses of one") {
  Job one, two;
  one.run();
  std::vector<Requests> requests(2);
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    TrainingRun(two.config, {.run_dir = two.folder.path()}, comm, two.channel,
                requests[comm.rank()])
        .train();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(list_checkpoints(two.folder.path()) ==
        std::vector<std::string>{two.folder / "checkpoints/step_00000006"});
  const auto expected = one.metrics("loss"), actual = two.metrics("loss");
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    CHECK(actual[i] == Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("a request for a checkpoint saves after the step, and patience ends a run") {
  Job job;
  job.requests.checkpoint = true;
  job.config.training.eval_interval = 1;
  job.config.training.patience = 1;
  job.config.optimizer.lr = 0;
  const RunOutcome outcome = job.run();
  CHECK(job.metrics("step").size() == 2);
  CHECK_THAT(outcome.reason, Catch::StartsWith("validation loss has not improved"));
  CHECK(list_checkpoints(job.folder.path()).size() == 2);
}
