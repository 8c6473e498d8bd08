#include "cuda/gemm_plans.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "capture.h"
#include "cuda/launchers.h"
#include "device_state.h"
#include "gemm_operands.h"
#include "support/temporary_folder.h"

// On the emulated device, whose clock and whose cuBLAS take the times of
// tests/emulation/cublas.cpp: for few terms the second candidate is the fastest, for 64 and more
// the last, and epilogues are faster for an even number of terms.

using namespace hgt;

namespace {

/// A process with a stream, whose choices lie in `folder`.
struct Process {
  explicit Process(const std::string& folder = "")
      : cache(std::make_shared<GemmCache>(folder, "emulation")) {
    stream.gemm_plans = std::make_shared<GemmPlans>(cache);
  }
  ~Process() { emulation::device_state = {}; }

  const GemmPlan& plan(const GemmOperands& x) { return plan_of(x.args, stream); }
  /// The index of the choice among cuBLAS's candidates; -1: unfused.
  int choice(const GemmOperands& x) {
    const GemmPlan& chosen = plan(x);
    return chosen.algorithm ? static_cast<int>(chosen.algorithm->bytes.data[1]) : -1;
  }
  /// The time of a product on the device's clock, including its choice.
  double us(const GemmOperands& x) {
    const double before = emulation::device_state.clock_us;
    cuda::gemm(x.args, stream);
    return emulation::device_state.clock_us - before;
  }

  std::shared_ptr<GemmCache> cache;
  CudaStreamState stream;
};

GemmOperands with_bias(std::int64_t k) {
  GemmOperands x(8, 4, k);
  x.args.epilogue = GemmEpilogue::kBias;
  x.args.bias = x.bias.get();
  std::fill_n(static_cast<float*>(x.args.bias), 4, 7.0f);
  return x;
}

}  // namespace

TEST_CASE("the fastest candidate that runs is chosen, and timed once") {
  Process process;
  CHECK(process.choice(GemmOperands(8, 4, 12)) == 1);
  CHECK(process.choice(GemmOperands(8, 4, 64)) == 4);
  CHECK(process.choice(GemmOperands(8, 5, 12)) ==
        0);  // not aligned enough for the second, like odd k
  const GemmOperands x(16, 4, 12);
  CHECK(process.us(x) > 2);
  CHECK(process.us(x) == 2);
  CHECK(x.result() == std::vector<float>(64, 72));
}

TEST_CASE("another process uses the first one's choice, without timing") {
  const TemporaryFolder folder;
  const GemmOperands x, bias = with_bias(12), apart = with_bias(13);
  Process first(folder.path());
  CHECK(first.us(x) > 2);
  CHECK(first.us(bias) > 2.5);
  CHECK(first.us(apart) > 5);
  Process second(folder.path());
  CHECK(second.us(x) == 2);
  CHECK(second.us(bias) == 2.5);
  CHECK(second.us(apart) == 5);
}

TEST_CASE("a process that is given the choices of another one uses them, without timing") {
  const TemporaryFolder folder;
  const GemmOperands x, never_run(16, 4, 12), bias = with_bias(12), apart = with_bias(13);
  Process first(folder.path());
  for (const GemmOperands* product : {&x, &bias, &apart}) (void)first.plan(*product);
  first.cache->keep(CublasShape(never_run.args).text(), "a choice of another run");
  const GemmChoices chosen = choices_of(first.stream);
  CHECK(chosen.size() == 4);  // with the plain product to which a kernel adds the last one's bias
  Process second;
  second.cache->use(choices_of(to_text("emulation", chosen), second.cache->basis()));
  CHECK(second.us(x) == 2);
  CHECK(second.us(bias) == 2.5);
  CHECK(second.us(apart) == 5);
}

TEST_CASE("a cached choice that cuBLAS refuses is timed anew and replaced") {
  const TemporaryFolder folder;
  const GemmOperands x;
  const std::string key = CublasShape(x.args).text();
  for (const std::string& useless : {std::string("apart"), std::string("12"), std::string(128, '0'),
                                     std::string(127, '0') + "z"}) {
    Process process(folder.path());
    const std::string before = process.cache->find(key).value_or("");
    REQUIRE(process.cache->keep(key, useless, before) == useless);
    CHECK(process.choice(x) == 1);
    CHECK(Process(folder.path()).cache->find(key) != useless);
  }
}

TEST_CASE("if another process chose first, its choice is used") {
  const TemporaryFolder folder;
  const GemmOperands x;
  Process first(folder.path()), second(folder.path());
  const std::string key = CublasShape(x.args).text();
  CHECK(first.choice(x) == 1);
  std::string kept = *first.cache->find(key);
  kept[31] = '0';  // the first candidate
  REQUIRE(first.cache->keep(key, kept, *first.cache->find(key)) == kept);
  CHECK(second.choice(x) == 0);
}

TEST_CASE("timing changes nothing that a product or its sums add to") {
  for (const std::int64_t k : {12, 13}) {
    Process process;
    GemmOperands x(8, 4, k);
    x.args.beta = 1;
    x.args.epilogue = GemmEpilogue::kColumnSums;
    x.args.bias = x.bias.get();
    std::fill_n(static_cast<float*>(x.args.c), 32, 1.0f);
    cuda::gemm(x.args, process.stream);
    CHECK(process.choice(x) == (k == 12 ? 1 : -1));
    CHECK(x.result() == std::vector<float>(32, 1 + 6 * static_cast<float>(k)));
    CHECK(static_cast<float*>(x.args.bias)[3] == 3 * static_cast<float>(k));
    CHECK(process.us(x) == (k == 12 ? 3.5 : 6));  // one kernel adds the sums, or two make them
  }
}

TEST_CASE("an epilogue that is slower than a kernel of its own runs in that kernel") {
  Process process;
  for (const std::int64_t k : {12, 13}) {
    const GemmOperands x = with_bias(k);
    CHECK(process.choice(x) == (k == 12 ? 1 : -1));
    cuda::gemm(x.args, process.stream);
    CHECK(x.result() == std::vector<float>(32, 6 * static_cast<float>(k) + 7));
  }
}

TEST_CASE("GELU in fp32 runs in a kernel, after the product with its bias") {
  Process process;
  GemmOperands x = with_bias(12);
  const EmulatedMemory pre = zeros(4 * 32);
  x.args.epilogue = GemmEpilogue::kGelu;
  x.args.pre = pre.get();
  CHECK(process.choice(x) == -1);
  cuda::gemm(x.args, process.stream);
  CHECK(process.us(x) == 2.5 + 1);
  CHECK(static_cast<float*>(pre.get())[5] == 79);
  CHECK(x.result()[5] == 79);
}

TEST_CASE("a captured stream times nothing and writes no file") {
  const TemporaryFolder folder;
  Process process(folder.path());
  emulation::Graph graph;
  process.stream.stream = UniqueHandle<cudaStream_t, cudaStreamDestroy>(new CUstream_st{1, {}});
  process.stream.stream.get()->captured = &graph;
  emulation::begin_capture(graph);
  CHECK(process.choice(GemmOperands()) == 0);
  CHECK(process.choice(with_bias(12)) == -1);
  CHECK(list_folder(folder.path()).empty());
  emulation::end_capture(graph);
  process.stream.stream.get()->captured = nullptr;
  CHECK(process.choice(GemmOperands()) == 0);  // as in the graph
  CHECK(process.choice(GemmOperands(16, 4, 12)) == 1);
}

TEST_CASE(
    "without autotuning, cuBLAS's first candidate is used, whatever a file or the clock says") {
  const TemporaryFolder folder;
  const GemmOperands x(8, 4, 12), bias = with_bias(12);
  Process timing(folder.path());
  REQUIRE(timing.choice(x) == 1);
  REQUIRE(timing.choice(bias) == 1);
  for (const std::string& place : {folder.path(), std::string()}) {
    Process process(place);
    process.stream.product_timing = ProductTiming::kNone;
    const double before = emulation::device_state.clock_us;
    CHECK(process.choice(x) == 0);
    CHECK(process.choice(bias) == -1);
    CHECK(emulation::device_state.clock_us == before);
    cuda::gemm(bias.args, process.stream);
    CHECK(bias.result() == std::vector<float>(32, 6 * 12 + 7));
  }
  CHECK(Process(folder.path()).choice(x) == 1);
}

TEST_CASE(
    "after timing has ended, choices stay, and other products take cuBLAS's first candidate") {
  Process process;
  const GemmOperands x, later(16, 4, 12);
  REQUIRE(process.choice(x) == 1);
  Process other;
  other.cache->use(choices_of(process.stream));
  for (Process* one : {&process, &other}) {
    one->stream.product_timing = ProductTiming::kEnded;
    CHECK(one->choice(x) == 1);
    CHECK(one->choice(later) == 0);
    CHECK_FALSE(one->cache->find(CublasShape(later.args).text()));
  }
}

TEST_CASE("without memory to add to, cuBLAS's first candidate is used") {
  const TemporaryFolder folder;
  Process process(folder.path());
  GemmOperands x;
  x.args.beta = 1;
  emulation::device_state.full = true;
  CHECK(process.choice(x) == 0);
  CHECK(list_folder(folder.path()).empty());
  CHECK(process.choice(GemmOperands()) == 1);  // overwrites c in place
}

TEST_CASE("a product that cuBLAS cannot compute is an error with its shape") {
  Process process;
  GemmOperands x;
  x.args.c_type = DType::kBF16;
  try {
    cuda::gemm(x.args, process.stream);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.message() == "cuBLAS has no algorithm for a product");
    CHECK(error.context().front() == "4 x 12 x 8, fp32: 4 128, 12 128; bf16: 4 128; plain 0 0");
  }
}
