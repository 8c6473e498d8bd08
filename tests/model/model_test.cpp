#include "hgtrain/model/model.h"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/thread_pool.h"

#include "golden.h"

using namespace hgt;

namespace {

/// A model with its buffers, on the first batch of a golden case.
struct Run {
  explicit Run(const Golden& golden, Model::Options options = {}, int threads = 2)
      : batch(golden.batch_of(0)),
        micro(golden.micro_batch(batch)),
        table(parameter_table(golden.model, false)),
        pool(threads),
        parameters(golden.parameters(table)),
        gradients(parameters.size()) {
    micro.samples = &key;
    options.max_batch = golden.batch;
    options.max_seq_length = golden.seq_length;
    model = Model::create(golden.model, table, flat_tensor(parameters), flat_tensor(gradients),
                          options, pool);
  }

  void forward(const MicroBatch& of, int slot = 0) {
    for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, slot, of);
  }
  void backward(const MicroBatch& of, int slot = 0) {
    for (int block = model->num_blocks(); block-- > 0;) model->backward(block, slot, of);
  }
  double loss() {
    forward(micro);
    return loss_sum(*model) * micro.loss_scale;
  }
  /// Row `b` of the batch as a micro-batch of its own.
  MicroBatch row(std::int64_t b) const {
    MicroBatch out = micro;
    const std::size_t length = static_cast<std::size_t>(micro.seq_length);
    out.tokens_BT = micro.tokens_BT.subspan(static_cast<std::size_t>(b) * length, length);
    out.targets_BT = micro.targets_BT.subspan(static_cast<std::size_t>(b) * length, length);
    out.batch = 1;
    row_keys[static_cast<std::size_t>(b)] = {key.step, key.first_sample + b};
    out.samples = &row_keys[static_cast<std::size_t>(b)];
    return out;
  }

  Golden::Batch batch;
  SampleKey key;
  mutable std::array<SampleKey, 8> row_keys;
  MicroBatch micro;
  ParameterTable table;
  ThreadPool pool;
  std::vector<float> parameters, gradients;
  std::unique_ptr<Model> model;
};

/// The largest difference, in units of the largest element.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return difference / largest;
}

}  // namespace

TEST_CASE("the gradient is the slope of the loss, dropout included") {
  for (const std::string name : {"gpt2", "qwen3", "mistral"}) {
    Run run(with_dropout(Golden(name)), {.seed = 3});
    run.loss();
    run.backward(run.micro);
    double squares = 0;
    for (const float g : run.gradients) squares += static_cast<double>(g) * g;
    const std::vector<float> at = run.parameters, direction = run.gradients;
    const double step = 0.005 / std::sqrt(squares);
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < at.size(); ++i)
        run.parameters[i] = static_cast<float>(at[i] + by * direction[i]);
      return run.loss();
    };
    // Two step sizes remove the cubic term (Richardson).
    const double coarse = (moved(2 * step) - moved(-2 * step)) / (4 * step);
    const double fine = (moved(step) - moved(-step)) / (2 * step);
    INFO(name);
    CHECK((4 * fine - coarse) / 3 == Approx(squares).epsilon(1e-3));
  }
}

TEST_CASE("two runs have the same bits") {
  const Golden golden = with_dropout(Golden("qwen2"));
  Run a(golden, {.seed = 1}), b(golden, {.seed = 1});
  CHECK(a.loss() == b.loss());
  a.backward(a.micro);
  b.backward(b.micro);
  CHECK(a.gradients == b.gradients);
}

TEST_CASE("a batch split into micro-batches has the same loss and gradients, dropout included") {
  for (const std::string name : {"gpt2", "llama"}) {
    const Golden golden = with_dropout(Golden(name));
    Run whole(golden, {.seed = 5}), split(golden, {.ranges = {{.slots = 2}}, .seed = 5});
    whole.key = split.key = {7, 40};
    const double loss = whole.loss();
    whole.backward(whole.micro);
    // Both in flight at once, each in a slot of its own.
    split.forward(split.row(0), 0);
    split.forward(split.row(1), 1);
    split.backward(split.row(0), 0);
    split.backward(split.row(1), 1);
    const double sum = loss_sum(*split.model) + loss_sum(*split.model, 1);
    INFO(name);
    CHECK(sum * split.micro.loss_scale == Approx(loss).epsilon(1e-6));
    CHECK(largest_difference(split.gradients, whole.gradients) < 2e-6);
  }
}

TEST_CASE("documents packed into a sample have the loss and gradients of separate samples") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    if (golden.model.rope_scaling.type == "dynamic") continue;  // turns by the sample's length
    Run packed(golden), apart(golden);
    const std::int64_t ends[] = {4, 5, golden.seq_length};
    std::vector<std::int32_t> positions;
    for (std::int64_t b = 0; b < golden.batch; ++b)
      for (std::int64_t t = 0; t < golden.seq_length; ++t)
        positions.push_back(static_cast<std::int32_t>(t < 4 ? t : t < 5 ? 0 : t - 5));
    packed.micro.positions_BT = positions;
    packed.forward(packed.micro);
    packed.backward(packed.micro);

    double loss = 0;
    for (std::int64_t b = 0; b < golden.batch; ++b)
      for (std::int64_t i = 0, begin = 0; i < 3; begin = ends[i++]) {
        MicroBatch document = apart.row(b);
        const auto part = [&](std::span<const std::int32_t> row) {
          return row.subspan(static_cast<std::size_t>(begin),
                             static_cast<std::size_t>(ends[i] - begin));
        };
        document.tokens_BT = part(document.tokens_BT);
        document.targets_BT = part(document.targets_BT);
        document.seq_length = ends[i] - begin;
        apart.forward(document);
        loss += loss_sum(*apart.model);
        apart.backward(document);
      }
    INFO(name);
    CHECK(loss_sum(*packed.model) == Approx(loss).epsilon(1e-6));
    CHECK(largest_difference(packed.gradients, apart.gradients) < 3e-6);
  }
}

TEST_CASE("dropout depends on the seed and the step, and evaluation has none") {
  const Golden golden = with_dropout(Golden("gpt2"));
  Run run(golden, {.seed = 1}), other(golden, {.seed = 2}), plain(Golden("gpt2"));
  const double first = run.loss();
  CHECK(other.loss() != first);
  run.key.step = 1;
  CHECK(run.loss() != first);
  CHECK(evaluate(*run.model, run.micro) == evaluate(*plain.model, plain.micro));
}

TEST_CASE("evaluation gives the training loss and leaves gradients alone") {
  for (const std::string& name : Golden::names()) {
    Run run((Golden(name)));
    const double loss = evaluate(*run.model, run.micro) * run.micro.loss_scale;
    CHECK(std::count(run.gradients.begin(), run.gradients.end(), 0.0f) ==
          static_cast<std::ptrdiff_t>(run.gradients.size()));
    CHECK(loss == run.loss());
  }
}

TEST_CASE("recomputed values equal the ones not kept, including dropout") {
  for (const std::string& name : Golden::names()) {
    const Golden golden = with_dropout(Golden(name));
    Run kept(golden, {.ranges = {{.slots = 2}}});
    const auto pass = [](Run& run) {  // two micro-batches under way
      run.forward(run.row(0), 0);
      run.forward(run.row(1), 1);
      run.backward(run.row(0), 0);
      run.backward(run.row(1), 1);
    };
    pass(kept);
    for (const Recompute what : {Recompute::kSelective, Recompute::kFull})
      for (const std::int64_t layers : {std::int64_t{1}, golden.model.num_hidden_layers}) {
        Run run(golden, {.ranges = {{.slots = 2}}, .recompute = what, .recomputed_layers = layers});
        pass(run);
        INFO(name << ", " << layers << " layers");
        CHECK(run.gradients == kept.gradients);
      }
  }
}

TEST_CASE("a backward in two halves gives the bits of a whole one, however late the second is") {
  struct Variant {
    Recompute recompute = Recompute::kNone;
    std::int64_t layers = 0;
  };
  for (const std::string& name : Golden::names()) {
    const Golden golden = with_dropout(Golden(name));
    for (const auto& [recompute, layers] :
         {Variant{}, Variant{Recompute::kSelective, 1},
          Variant{Recompute::kFull, golden.model.num_hidden_layers}}) {
      INFO(name << ", " << layers << " recomputed layers");
      Run whole(golden, {.recompute = recompute, .recomputed_layers = layers});
      Run split(golden, {.split = {2, 2}, .recompute = recompute, .recomputed_layers = layers});
      const auto finish = [&](int micro) {
        for (int block = split.model->num_blocks() - 1; --block > 0;)
          split.model->backward_weights(block, micro % 2, split.row(micro % 2));
      };
      for (int micro = 0; micro < 3; ++micro) {
        whole.forward(whole.row(micro % 2));
        whole.backward(whole.row(micro % 2));
        split.forward(split.row(micro % 2), micro % 2);
        split.backward(split.row(micro % 2), micro % 2);
        if (micro > 0) finish(micro - 1);
      }
      finish(2);
      CHECK(split.gradients == whole.gradients);
    }
  }
}

TEST_CASE("the memory table knows the threads' scratch memory") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    Run run(golden);
    run.loss();
    run.backward(run.micro);
    Config config;
    config.model = golden.model;
    config.batch.micro_batch_size = golden.batch;
    config.training.seq_length = golden.seq_length;
    INFO(name);
    const std::vector<Allocation> table = memory_table(config, 2);
    const auto scratch = std::ranges::find(table, "scratch of threads", &Allocation::name);
    REQUIRE(scratch != table.end());
    CHECK(scratch->bytes == run.pool.scratch_bytes());
  }
}

TEST_CASE("shorter and smaller batches than planned work") {
  Run run((Golden("qwen3")));
  MicroBatch small = run.row(1);
  small.seq_length = 5;
  small.tokens_BT = small.tokens_BT.first(5);
  small.targets_BT = small.targets_BT.first(5);
  run.forward(small);
  run.backward(small);
  CHECK(loss_sum(*run.model) == evaluate(*run.model, small));
  CHECK(std::isfinite(loss_sum(*run.model)));
}

TEST_CASE("unsupported models and batches are refused") {
  const auto refusal = [](auto change) -> std::string {
    Golden golden("gpt2");
    change(golden);
    try {
      Run run(golden);
      run.loss();
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  CHECK(refusal([](Golden& g) { g.model.hidden_act = "swish2"; }) ==
        "model.hidden_act \"swish2\" is not supported");
  CHECK(refusal([](Golden& g) { g.model.max_position_embeddings = 18; }) ==
        "a sequence of 19 tokens is longer than the model's max_position_embeddings = 18");

  Run run((Golden("gpt2")));
  run.batch.tokens[3] = 67;
  CHECK_THROWS_WITH(run.loss(), "token 67 is outside the vocabulary of 67");
  MicroBatch large = run.micro;
  large.batch = 3;
  CHECK_THROWS_AS(run.model->forward(0, 0, large), Error);
  CHECK_THROWS_AS(run.model->forward(0, 1, run.micro), Error);
}
