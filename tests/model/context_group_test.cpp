#include "context_group.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/device/thread_pool.h"
#include "hgtrain/parallel/context_split.h"

#include "golden.h"
#include "support/ranks.h"

using namespace hgt;

namespace {

constexpr std::int64_t kLength = 16;

struct Options {
  Model::Options model = {};
  DType dtype = DType::kF32;
  std::int64_t document = 0;  ///< tokens per document; 0: a sample is one
};

/// What ranks that share the sequences of a batch compute: the sums of their losses and gradients.
struct Result {
  double loss = 0, evaluated = 0;
  std::vector<float> gradients;
};

/// One rank's step on its tokens of a golden case's first batch, cut to kLength tokens.
Result compute(const Golden& golden, Communicator* context, const Options& options) {
  const int rank = context ? context->rank() : 0, size = context ? context->size() : 1;
  const SampleRows rows = context_rows(kLength, size, rank);
  const Golden::Batch batch = golden.batch_of(0);
  std::vector<std::int32_t> tokens, targets, positions;
  for (std::int64_t b = 0; b < golden.batch; ++b)
    for (std::int64_t t = 0; t < rows.length; ++t) {
      const std::int64_t token = rows.token(t);
      const auto at = static_cast<std::size_t>(b * golden.seq_length + token);
      tokens.push_back(batch.tokens[at]);
      targets.push_back(batch.targets[at]);
      positions.push_back(
          static_cast<std::int32_t>(options.document > 0 ? token % options.document : token));
    }
  const SampleKey key{7, 40};
  const MicroBatch micro{.tokens_BT = tokens,
                         .targets_BT = targets,
                         .positions_BT = size > 1 || options.document > 0
                                             ? std::span<const std::int32_t>(positions)
                                             : std::span<const std::int32_t>(),
                         .batch = golden.batch,
                         .seq_length = rows.length,
                         .samples = &key,
                         .loss_scale = 1.0 / 25};
  const ParameterTable table = parameter_table(golden.model, false);
  ThreadPool pool(1);
  const std::vector<float> parameters = golden.parameters(table);
  const Buffer weights = rounded(parameters, options.dtype, pool);
  Result result{.gradients = std::vector<float>(parameters.size())};
  Model::Options model_options = options.model;
  model_options.max_batch = golden.batch;
  model_options.max_seq_length = kLength;
  model_options.context = context;
  const auto model =
      Model::create(golden.model, table, Tensor(weights.data(), {table.total}, options.dtype),
                    flat_tensor(result.gradients), model_options, pool);
  result.evaluated = evaluate(*model, micro);
  for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, 0, micro);
  result.loss = loss_sum(*model);
  for (int block = model->num_blocks(); block-- > 0;) model->backward(block, 0, micro);
  return result;
}

Result of_ranks(const Golden& golden, int ranks, const Options& options = {}) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  const auto errors = run_ranks(over_shared_memory, ranks, [&](Communicator& comm) {
    results[static_cast<std::size_t>(comm.rank())] = compute(golden, &comm, options);
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  Result sum = results[0];
  for (int rank = 1; rank < ranks; ++rank) {
    const Result& other = results[static_cast<std::size_t>(rank)];
    sum.loss += other.loss;
    sum.evaluated += other.evaluated;
    for (std::size_t i = 0; i < sum.gradients.size(); ++i) sum.gradients[i] += other.gradients[i];
  }
  return sum;
}

double norm(const float* values, const float* others, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x =
        static_cast<double>(values[i]) - (others ? static_cast<double>(others[i]) : 0.0);
    squares += x * x;
  }
  return std::sqrt(squares);
}

/// `tolerance` of each parameter's gradient, or of a thousandth of the whole one's norm.
void check_near(const Golden& golden, const Result& sum, const Result& one, double tolerance) {
  CHECK(sum.loss == Approx(one.loss).epsilon(tolerance));
  CHECK(sum.evaluated == Approx(one.evaluated).epsilon(tolerance));
  const ParameterTable table = parameter_table(golden.model, false);
  const double floor = 1e-3 * norm(one.gradients.data(), nullptr, table.total);
  for (const Parameter& p : table.parameters) {
    INFO(p.name);
    const float* const expected = one.gradients.data() + p.offset;
    CHECK(norm(sum.gradients.data() + p.offset, expected, p.numel) <=
          tolerance * std::max(norm(expected, nullptr, p.numel), floor));
  }
}

}  // namespace

TEST_CASE("ranks that share sequences have the loss and gradients of one rank, with dropout") {
  for (const std::string& name : Golden::names()) {
    const Golden golden = with_dropout(Golden(name));
    for (const std::int64_t document : {0, 5}) {
      const Options options{.model = {.seed = 3}, .document = document};
      const Result one = compute(golden, nullptr, options);
      for (const int ranks : {2, 4}) {
        INFO(name << " on " << ranks << ", documents of " << document);
        check_near(golden, of_ranks(golden, ranks, options), one, 1e-5);
      }
    }
  }
}

TEST_CASE("ranks that share sequences scale dynamic rotary positions by the whole length") {
  Golden golden("llama");
  golden.model.rope_scaling.type = "dynamic";
  golden.model.rope_scaling.factor = 2;
  golden.model.max_position_embeddings = 8;
  check_near(golden, of_ranks(golden, 2), compute(golden, nullptr, {}), 1e-5);
}

TEST_CASE("ranks that share sequences have the same bits from run to run, and if they recompute") {
  for (const std::string name : {"gpt2", "qwen3"}) {
    const Golden golden = with_dropout(Golden(name));
    const Result kept = of_ranks(golden, 2, {.model = {.seed = 1}});
    for (const Recompute what : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Result again =
          of_ranks(golden, 2, {.model = {.seed = 1, .recompute = what, .recomputed_layers = 2}});
      CHECK(again.loss == kept.loss);
      CHECK(again.gradients == kept.gradients);
    }
  }
}

TEST_CASE("ranks that share sequences in bf16 are as near to fp32 as one rank in bf16") {
  for (const std::string name : {"gpt2", "llama", "qwen3"}) {
    const Golden golden(name);
    const Result exact = compute(golden, nullptr, {});
    const auto distance = [&](const Result& result) {
      return norm(result.gradients.data(), exact.gradients.data(), std::ssize(exact.gradients));
    };
    const Result one = compute(golden, nullptr, {.dtype = DType::kBF16});
    const Result four = of_ranks(golden, 4, {.dtype = DType::kBF16});
    INFO(name);
    CHECK(distance(four) <= 1.5 * distance(one));
    CHECK(four.loss == Approx(exact.loss).epsilon(0.01));
  }
}

TEST_CASE("ranks that share sequences need the tokens' positions") {
  const auto errors = run_ranks(over_shared_memory, 2, [](Communicator& comm) {
    const Golden golden("llama");
    const ParameterTable table = parameter_table(golden.model, false);
    std::vector<float> parameters = golden.parameters(table);
    ThreadPool pool(1);
    const auto model = Model::create(golden.model, table, flat_tensor(parameters), {},
                                     {.max_seq_length = 4, .context = &comm}, pool);
    const std::vector<std::int32_t> ids{1, 2};
    evaluate(*model, {.tokens_BT = ids, .targets_BT = ids, .batch = 1, .seq_length = 2});
  });
  for (const std::string& error : errors) CHECK(error != "");
}
