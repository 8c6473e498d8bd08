#include "tensor_group.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/half.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/model/shared_gradients.h"

#include "golden.h"
#include "support/ranks.h"

using namespace hgt;

namespace {

/// What ranks that share a model compute on the first batch of a golden case.
struct TensorResult {
  double loss = 0, evaluated = 0;
  std::map<std::string, std::vector<float>> gradients;  ///< of whole parameters
};

struct TensorOptions {
  Model::Options model = {};
  DType dtype = DType::kF32;
  bool no_decay = false;
  std::int64_t tokens = 0;  ///< of the batch; 0: all
};

/// The part of a rank, of values of the whole model.
std::vector<float> part_of(const std::vector<float>& whole, const ParameterTable& whole_table,
                           const ParameterTable& table, TensorRank at) {
  std::vector<float> out(static_cast<std::size_t>(table.total));
  for (const Parameter& p : table.parameters) {
    const std::int64_t from = whole_table.find(p.name).offset;
    p.placement(at).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
      std::copy_n(whole.begin() + from + run.whole, run.size, out.begin() + p.offset + run.local);
    });
  }
  return out;
}

/// One rank's step. The gradients of its part go to their places in `result`.
void compute(const Golden& golden, Communicator& comm, const TensorOptions& options,
             TensorResult& result) {
  const TensorRank at{comm.rank(), comm.size()};
  const ParameterTable whole = parameter_table(golden.model, options.no_decay);
  const ParameterTable table = parameter_table(golden.model, options.no_decay, at.size);
  std::vector<float> parameters = part_of(golden.parameters(whole), whole, table, at);
  std::vector<float> gradients(parameters.size());
  ThreadPool pool(1);
  const Buffer weights = rounded(parameters, options.dtype, pool);
  Model::Options model_options = options.model;
  model_options.max_batch = golden.batch;
  model_options.max_seq_length = golden.seq_length;
  model_options.tensor = &comm;
  const auto model =
      Model::create(golden.model, table, Tensor(weights.data(), {table.total}, options.dtype),
                    flat_tensor(gradients), model_options, pool);
  const Golden::Batch batch = golden.batch_of(0);
  MicroBatch micro = golden.micro_batch(batch);
  if (options.tokens > 0) {  // of the first sample
    micro.batch = 1;
    micro.seq_length = options.tokens;
    micro.tokens_BT = micro.tokens_BT.first(static_cast<std::size_t>(options.tokens));
    micro.targets_BT = micro.targets_BT.first(static_cast<std::size_t>(options.tokens));
  }
  const SampleKey key{7, 40};
  micro.samples = &key;
  result.evaluated = evaluate(*model, micro) * micro.loss_scale;
  for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, 0, micro);
  result.loss = loss_sum(*model) * micro.loss_scale;
  for (int block = model->num_blocks(); block-- > 0;) model->backward(block, 0, micro);
  const SharedGradients shared(partial_gradients(table, at.size, options.model.split_rows), comm,
                               pool);
  for (const Range& block : table.blocks())
    shared.sum(block, flat_tensor(gradients).slice(0, block.begin, block.end));
  for (const Parameter& p : table.parameters) {
    std::vector<float>& to = result.gradients[p.name];
    to.resize(static_cast<std::size_t>(whole.find(p.name).numel));
    std::int64_t used = 0;
    p.placement(at).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
      std::copy_n(gradients.begin() + p.offset + run.local, run.size, to.begin() + run.whole);
      used += run.size;
    });
    const auto begin = gradients.begin() + p.offset;
    if (std::count(begin, begin + p.numel, 0.0f) < p.numel - used)
      throw Error(ErrorKind::kInternal, "the padding of " + p.name + " has a gradient");
  }
}

/// The results of all ranks: each has its own part of the gradients.
std::vector<TensorResult> results_of(const Golden& golden, int ranks,
                                     const TensorOptions& options = {}) {
  std::vector<TensorResult> out(static_cast<std::size_t>(ranks));
  const auto errors = run_ranks(over_shared_memory, ranks, [&](Communicator& comm) {
    compute(golden, comm, options, out[static_cast<std::size_t>(comm.rank())]);
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  return out;
}

/// The gradients of the whole model, from those of all ranks. What several ranks have must be
/// equal.
std::map<std::string, std::vector<float>> whole_gradients(const Golden& golden,
                                                          const std::vector<TensorResult>& results,
                                                          bool no_decay = false) {
  const auto ranks = static_cast<int>(results.size());
  const ParameterTable table = parameter_table(golden.model, no_decay, ranks);
  auto whole = results[0].gradients;
  for (const Parameter& p : table.parameters)
    for (int rank = 1; rank < ranks; ++rank)
      p.placement({rank, ranks}).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
        const auto from =
            results[static_cast<std::size_t>(rank)].gradients.at(p.name).begin() + run.whole;
        const auto to = whole[p.name].begin() + run.whole;
        if (!p.split.is_first({rank, ranks})) {
          INFO(p.name << " of rank " << rank);
          CHECK(std::equal(from, from + run.size, to));
        }
        std::copy_n(from, run.size, to);
      });
  return whole;
}

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a);
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  return norm(difference);
}

template <class Gradients>
double global_norm(const Gradients& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients)
    if (name != "logits") squares += std::pow(norm(values), 2);
  return std::sqrt(squares);
}

/// A golden case whose heads and MLP four ranks can share.
Golden divisible(const std::string& name) {
  Golden golden(name);
  ModelConfig& m = golden.model;
  if (m.num_attention_heads % 4 != 0) {
    m.num_key_value_heads = m.num_key_value_heads == m.num_attention_heads ? 4 : 2;
    m.num_attention_heads = 4;
  }
  return golden;
}

}  // namespace

TEST_CASE("ranks that share a model have the loss and gradients of one rank, dropout included") {
  for (const std::string& name : Golden::names()) {
    const Golden golden = with_dropout(divisible(name));
    const bool no_decay = name == "qwen3" || name == "llama";  // vectors lie apart
    const TensorOptions options{.model = {.seed = 3}, .no_decay = no_decay};
    const TensorResult one = results_of(golden, 1, options)[0];
    const double floor = 1e-3 * global_norm(one.gradients);
    for (const int ranks : {2, 4}) {
      INFO(name << " on " << ranks);
      const std::vector<TensorResult> results = results_of(golden, ranks, options);
      for (const TensorResult& result : results) {
        CHECK(result.loss == results[0].loss);
        CHECK(result.loss == Approx(one.loss).epsilon(2e-6));
        CHECK(result.evaluated == Approx(one.evaluated).epsilon(2e-6));
      }
      for (const auto& [parameter, gradient] : whole_gradients(golden, results, no_decay)) {
        INFO(parameter);
        const std::vector<float>& expected = one.gradients.at(parameter);
        CHECK(distance(gradient, expected) <= 1e-5 * std::max(norm(expected), floor));
      }
    }
  }
}

TEST_CASE("ranks that share a model have the same bits from run to run, and if they recompute") {
  for (const std::string name : {"gpt2", "llama"}) {
    const Golden golden = with_dropout(divisible(name));
    const std::vector<TensorResult> kept = results_of(golden, 2, {.model = {.seed = 1}});
    for (const Recompute what : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const std::vector<TensorResult> again =
          results_of(golden, 2, {.model = {.seed = 1, .recompute = what, .recomputed_layers = 2}});
      for (std::size_t rank = 0; rank < 2; ++rank) {
        CHECK(again[rank].loss == kept[rank].loss);
        CHECK(again[rank].gradients == kept[rank].gradients);
      }
    }
  }
}

TEST_CASE("ranks that share a model in bf16 are no further from fp32 than PyTorch's bf16") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    if (golden.model.num_attention_heads % 4 != 0) continue;
    for (const int ranks : {2, 4}) {
      INFO(name << " on " << ranks);
      const std::vector<TensorResult> results = results_of(golden, ranks, {.dtype = DType::kBF16});
      CHECK(std::abs(results[0].loss - golden.losses[0]) <=
            1.5 * std::max(golden.bf16_loss_error, 1e-3 * golden.losses[0]));
      const double luck = 1e-3 * global_norm(golden.tensors);
      for (const auto& [parameter, gradient] : whole_gradients(golden, results)) {
        INFO(parameter);
        const bool vector = golden.tensors.at(parameter).size() <= 128;
        CHECK(distance(gradient, golden.tensors.at(parameter)) <=
              1.5 * std::max(golden.bf16_gradient_errors.at(parameter), vector ? luck : 0));
      }
    }
  }
}

TEST_CASE(
    "ranks that split rows compute the bits of those that do not, except for norms' gradients") {
  for (const std::string& name : Golden::names()) {
    const Golden golden = with_dropout(divisible(name));
    const TensorOptions all{.model = {.seed = 3}, .no_decay = name == "qwen3"};
    TensorOptions split = all;
    split.model.split_rows = true;
    for (const int ranks :
         {2, 4}) {  // 38 rows: four ranks have parts of samples, and not equal ones
      INFO(name << " on " << ranks);
      const std::vector<TensorResult> expected = results_of(golden, ranks, all);
      for (const Recompute what : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        split.model.recompute = what;
        split.model.recomputed_layers = 1;
        const std::vector<TensorResult> results = results_of(golden, ranks, split);
        const auto gradients = whole_gradients(golden, results, split.no_decay);
        const auto whole = whole_gradients(golden, expected, split.no_decay);
        CHECK(results[0].loss == expected[0].loss);
        CHECK(results[0].evaluated == expected[0].evaluated);
        for (const auto& [parameter, gradient] : gradients) {
          INFO(parameter);
          const bool of_norm = parameter.find("ln_") != std::string::npos ||
                               parameter.find("norm.") != std::string::npos;
          if (of_norm)
            CHECK(distance(gradient, whole.at(parameter)) <= 1e-6 * norm(whole.at(parameter)));
          else
            CHECK(gradient == whole.at(parameter));
        }
      }
    }
  }
}

TEST_CASE("a rank that splits rows may have none of a small batch") {
  for (const std::string name : {"gpt2", "llama"}) {
    const Golden golden = with_dropout(divisible(name));
    const TensorOptions all{.model = {.seed = 5}, .tokens = 3};
    TensorOptions split = all;
    split.model.split_rows = true;
    const TensorResult one = results_of(golden, 1, all)[0];
    const std::vector<TensorResult> four = results_of(golden, 4, split);
    CHECK(four[3].loss == Approx(one.loss).epsilon(2e-6));
    CHECK(four[3].evaluated == Approx(one.evaluated).epsilon(2e-6));
    for (const auto& [parameter, gradient] : whole_gradients(golden, four)) {
      INFO(parameter);
      CHECK(distance(gradient, one.gradients.at(parameter)) <=
            1e-5 * std::max(norm(one.gradients.at(parameter)), 1e-3 * global_norm(one.gradients)));
    }
  }
}

TEST_CASE("gradients that ranks compute in parts are summed, as many at once as fit") {
  constexpr std::int64_t kLarge = 300'000;  // more than 1 MiB
  const std::vector<PartialGradients> partial = {
      {{0, 64}}, {{64, 96}, 2}, {{128, 128 + kLarge}}, {{128 + kLarge, 192 + kLarge}}};
  CHECK(partial_gradient_bytes(partial) == kLarge * 4);
  CHECK(partial_gradient_bytes({{{0, 64}}, {{64, 96}, 2}}) == 128 * 4);
  CHECK(partial_gradient_bytes({}) == 0);
  const auto errors = run_ranks(over_shared_memory, 4, [&](Communicator& comm) {
    ThreadPool pool(1);
    std::vector<float> gradients(static_cast<std::size_t>(192 + kLarge),
                                 static_cast<float>(1 + comm.rank()));
    const SharedGradients shared(partial, comm, pool);
    const Tensor flat = flat_tensor(gradients);
    shared.sum({0, 128}, flat.slice(0, 0, 128));
    shared.sum({128, flat.numel()}, flat.slice(0, 128, flat.numel()));
    const auto right = [&](std::int64_t i) {
      if (i < 64 || i >= 128) return 10.0f;
      if (i >= 96) return static_cast<float>(1 + comm.rank());  // no part of it
      return comm.rank() < 2 ? 3.0f : 7.0f;                     // of the ranks with the same half
    };
    for (std::int64_t i = 0; i < flat.numel(); ++i)
      if (gradients[static_cast<std::size_t>(i)] != right(i))
        throw Error(ErrorKind::kInternal, fmt::format("element {} is wrong", i));
  });
  CHECK(errors == std::vector<std::string>(4));
}

TEST_CASE("a vocabulary that leaves ranks without any of it") {
  Golden golden = divisible("gpt2_untied");
  golden.model.vocab_size = 5;  // two rows of ranks 0 and 1, one of rank 2
  const TensorResult one = results_of(golden, 1)[0];
  const std::vector<TensorResult> four = results_of(golden, 4);
  for (const TensorResult& result : four) CHECK(result.loss == Approx(one.loss).epsilon(2e-6));
  for (const auto& [parameter, gradient] : whole_gradients(golden, four)) {
    INFO(parameter);
    CHECK(distance(gradient, one.gradients.at(parameter)) <=
          1e-5 * std::max(norm(one.gradients.at(parameter)), 1e-3 * global_norm(one.gradients)));
  }
}
