#include "golden.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/model/decoder.h"

#include "device_here.h"

using namespace hgt;

namespace {

struct GoldenRun {
  explicit GoldenRun(const Golden& from, int threads = 2, std::int64_t vocabulary_unit = 1)
      : golden(from),
        table(parameter_table(golden.model, false, 1, vocabulary_unit)),
        pool(threads),
        parameters(golden.parameters(table)),
        gradients(parameters.size()),
        model(create(flat_tensor(parameters))) {}

  std::unique_ptr<Model> create(const Tensor& weights) {
    return Model::create(golden.model, table, weights, flat_tensor(gradients),
                         {.max_batch = golden.batch, .max_seq_length = golden.seq_length}, pool);
  }

  /// Computes in 16 bits from now on, with the weights that it returns.
  std::vector<std::uint16_t> narrow(DType dtype) {
    std::vector<std::uint16_t> weights(parameters.size());
    std::transform(parameters.begin(), parameters.end(), weights.begin(), [dtype](float x) {
      return dtype == DType::kBF16 ? BFloat16(x).bits : Half(x).bits;
    });
    model = create(Tensor(weights.data(), {table.total}, dtype));
    return weights;
  }

  /// Mean loss of a step's batch; gradients start from zero.
  double forward_backward(int step) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    const Golden::Batch batch = golden.batch_of(step);
    const MicroBatch micro = golden.micro_batch(batch);
    for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, 0, micro);
    for (int block = model->num_blocks(); block-- > 0;) model->backward(block, 0, micro);
    return loss_sum(*model) * micro.loss_scale;
  }

  const Golden& golden;
  ParameterTable table;
  ThreadPool pool;
  std::vector<float> parameters, gradients;
  std::unique_ptr<Model> model;
};

double norm(const float* values, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += static_cast<double>(values[i]) * values[i];
  return std::sqrt(squares);
}

/// |values - expected|.
double distance(const float* values, const std::vector<float>& expected) {
  std::vector<float> difference(expected);
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = values[i] - difference[i];
  return norm(difference.data(), static_cast<std::int64_t>(difference.size()));
}

/// The gradients of the first batch.
double global_norm(const Golden& golden, const ParameterTable& table) {
  double squares = 0;
  for (const Parameter& p : table.parameters) {
    const std::vector<float>& gradient = golden.tensors.at(p.name);  // without padding
    squares += std::pow(norm(gradient.data(), std::ssize(gradient)), 2);
  }
  return std::sqrt(squares);
}

/// AdamW as published, every parameter decayed.
void adamw(const Golden& g, int step, GoldenRun& run, std::vector<double>& m,
           std::vector<double>& v) {
  const double c1 = 1 - std::pow(g.beta1, step), c2 = 1 - std::pow(g.beta2, step);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const double d = static_cast<double>(run.gradients[i]);
    m[i] = g.beta1 * m[i] + (1 - g.beta1) * d;
    v[i] = g.beta2 * v[i] + (1 - g.beta2) * d * d;
    const double p = static_cast<double>(run.parameters[i]) * (1 - g.lr * g.weight_decay);
    run.parameters[i] = static_cast<float>(p - g.lr * (m[i] / c1) / (std::sqrt(v[i] / c2) + g.eps));
  }
}

/// Each golden model, with multiples to which its vocabulary of 67 is padded.
std::vector<std::pair<std::string, std::int64_t>> with_and_without_padding() {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const std::string& name : Golden::names())
    for (const std::int64_t unit : {1, 128}) out.emplace_back(name, unit);
  return out;
}

/// The first batch's loss and the norm of each gradient.
struct FirstBatch {
  FirstBatch(const Golden& golden, DType dtype, std::int64_t vocabulary_unit, Stream stream) {
    const ParameterTable table = parameter_table(golden.model, false, 1, vocabulary_unit);
    const auto flat = [&](const Buffer& buffer, DType type) {
      return Tensor(buffer.data(), {table.total}, type, stream.device());
    };
    const Buffer weights = rounded(golden.parameters(table), dtype, stream);
    std::vector<float> values(static_cast<std::size_t>(table.total));
    const Buffer gradients = rounded(values, DType::kF32, stream);
    const auto model =
        Model::create(golden.model, table, flat(weights, dtype), flat(gradients, DType::kF32),
                      {.max_batch = golden.batch, .max_seq_length = golden.seq_length}, stream);
    const Golden::Batch batch = golden.batch_of(0);
    const auto there = [&](const std::vector<std::int32_t>& tokens) {
      const std::size_t bytes = tokens.size() * sizeof tokens[0];
      Buffer out("tokens", static_cast<std::int64_t>(bytes), stream.device());
      stream.copy(out.data(), tokens.data(), bytes);
      return out;
    };
    const Buffer tokens = there(batch.tokens), targets = there(batch.targets);
    MicroBatch micro = golden.micro_batch(batch);
    micro.tokens_BT = {static_cast<const std::int32_t*>(tokens.data()), batch.tokens.size()};
    micro.targets_BT = {static_cast<const std::int32_t*>(targets.data()), batch.targets.size()};
    for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, 0, micro);
    for (int block = model->num_blocks(); block-- > 0;) model->backward(block, 0, micro);
    const Buffer sum("loss", sizeof loss, stream.device());
    model->loss_sum(0, static_cast<double*>(sum.data()));
    stream.copy(&loss, sum.data(), sizeof loss);
    stream.copy(values.data(), gradients.data(), values.size() * sizeof values[0]);
    stream.synchronize();
    loss *= micro.loss_scale;
    for (const Parameter& p : table.parameters) norms[p.name] = norm(&values[p.offset], p.numel);
  }

  double loss = 0;
  std::map<std::string, double> norms;
};

/// Compares them with transformers', with and without padding of the vocabulary.
void check_large_vocabularies(Stream stream) {
  for (const std::string name : {"gpt2_vocabulary/gpt2", "gpt2_vocabulary/llama"})
    for (const std::int64_t unit : {1, 128}) {
      const Golden golden(name);
      double squares = 0;
      for (const auto& [key, expected] : golden.gradient_norms) squares += expected * expected;
      const double global = std::sqrt(squares);
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const FirstBatch first(golden, dtype, unit, stream);
        const bool narrow = dtype == DType::kBF16;
        INFO(name << ", in rows of " << unit << ", " << name_of(dtype));
        CHECK(std::abs(first.loss - golden.losses[0]) <=
              (narrow ? 1.5 * std::max(golden.bf16_loss_error, 1e-3 * golden.losses[0]) : 2e-5));
        for (const auto& [key, expected] : golden.gradient_norms) {
          INFO(key);
          const double narrow_error = golden.bf16_gradient_errors.at(key) + 2e-3 * global;
          CHECK(std::abs(first.norms.at(key) - expected) <=
                (narrow ? 1.5 * narrow_error : 1e-5 * std::max(expected, 1e-3 * global)));
        }
      }
    }
}

}  // namespace

TEST_CASE("with GPT-2's vocabulary, the loss and every gradient's norm are those of transformers") {
  ThreadPool pool(2);
  check_large_vocabularies(pool);
}

TEST_CASE("CUDA: with GPT-2's vocabulary, the loss and gradient norms are those of transformers") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module);
  check_large_vocabularies(queue);
}

TEST_CASE("each family that is built has a golden model of transformers") {
  std::set<std::string> types;
  for (const std::string& name : Golden::names()) types.insert(Golden(name).model.model_type);
  for (const Family& family : families()) CHECK(types.count(family.type) == 1);
}

TEST_CASE("the parameters are those of transformers") {
  for (const std::string& name : Golden::names()) {
    INFO(name);
    const Golden golden(name);
    const ParameterTable table = parameter_table(golden.model, true);
    CHECK(table.parameters.size() == golden.tensors.size() - 1);
    for (const Parameter& p : table.parameters) {
      INFO(p.name);
      REQUIRE(golden.tensors.count(p.name) == 1);
      CHECK(static_cast<std::int64_t>(golden.tensors.at(p.name).size()) == p.numel);
    }
  }
}

TEST_CASE("loss and every gradient agree with transformers, with a padded vocabulary, too") {
  for (const auto& [name, unit] : with_and_without_padding()) {
    const Golden golden(name);
    GoldenRun run(golden, 2, unit);
    INFO(name << ", vocabulary " << run.table.vocabulary_rows());
    CHECK(run.forward_backward(0) == Approx(golden.losses[0]).epsilon(2e-6));

    const double floor = 1e-3 * global_norm(golden, run.table);
    for (const Parameter& p : run.table.parameters) {
      const std::vector<float>& expected = golden.tensors.at(p.name);
      INFO(p.name);
      CHECK(distance(run.gradients.data() + p.offset, expected) <=
            1e-5 * std::max(norm(expected.data(), std::ssize(expected)), floor));
      for (std::int64_t i = std::ssize(expected); i < p.numel; ++i)
        REQUIRE(run.gradients[static_cast<std::size_t>(p.offset + i)] == 0);
    }
  }
}

TEST_CASE("twenty steps of AdamW have the losses of transformers") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    GoldenRun run(golden);
    std::vector<double> m(run.parameters.size()), v(run.parameters.size());
    for (int step = 0; step < static_cast<int>(golden.losses.size()); ++step) {
      INFO(name << ", step " << step);
      CHECK(run.forward_backward(step) ==
            Approx(golden.losses[static_cast<std::size_t>(step)]).epsilon(2e-5));
      adamw(golden, step + 1, run, m, v);
    }
  }
}

TEST_CASE("cached decoding gives the logits of transformers") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    // A cache keeps keys rotated for the length they were computed at, as it does in transformers.
    if (golden.model.rope_scaling.type == "dynamic") continue;
    const ParameterTable table = parameter_table(golden.model, false);
    std::vector<float> parameters = golden.parameters(table);
    ThreadPool pool(2);
    const auto decoder =
        Decoder::create(golden.model, table, flat_tensor(parameters), golden.seq_length, pool);
    const std::vector<std::int32_t> tokens = golden.batch_of(0).tokens;
    const std::vector<float>& expected = golden.tensors.at("logits");
    const auto row = [&](std::int64_t t) { return expected.data() + t * golden.model.vocab_size; };
    const auto agrees = [&](const Tensor& logits, std::int64_t t) {
      const std::int64_t count = golden.model.vocab_size;
      return distance(logits.data<float>(), {row(t), row(t) + count}) <= 2e-6 * norm(row(t), count);
    };

    constexpr std::int64_t kPrompt = 7;
    INFO(name);
    CHECK(agrees(decoder->append(std::span(tokens).first(kPrompt)), kPrompt - 1));
    for (std::int64_t t = kPrompt; t < golden.seq_length; ++t) {
      INFO("token " << t);
      CHECK(agrees(decoder->append(std::span(tokens).subspan(static_cast<std::size_t>(t), 1)), t));
    }
    decoder->truncate(3);
    CHECK(agrees(decoder->append(std::span(tokens).subspan(3, 2)), 4));
  }
}

TEST_CASE("bf16 is no further from fp32 than PyTorch's bf16") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    GoldenRun run(golden);
    const std::vector<std::uint16_t> weights = run.narrow(DType::kBF16);
    INFO(name);
    const double loss = run.forward_backward(0);
    CHECK(std::abs(loss - golden.losses[0]) <=
          1.5 * std::max(golden.bf16_loss_error, 1e-3 * golden.losses[0]));
    // How the few numbers of a bias or a gain are rounded is luck.
    const double luck = 1e-3 * global_norm(golden, run.table);
    for (const Parameter& p : run.table.parameters) {
      INFO(p.name);
      CHECK(distance(run.gradients.data() + p.offset, golden.tensors.at(p.name)) <=
            1.5 * std::max(golden.bf16_gradient_errors.at(p.name), p.shape.size() > 1 ? 0 : luck));
    }
  }
}

TEST_CASE("gradients in fp16 are those of fp32 within rounding") {
  for (const std::string& name : Golden::names()) {
    const Golden golden(name);
    GoldenRun run(golden);
    const std::vector<std::uint16_t> weights = run.narrow(DType::kF16);
    INFO(name);
    CHECK(run.forward_backward(0) == Approx(golden.losses[0]).epsilon(0.004));
    const double floor = 0.004 * global_norm(golden, run.table);
    for (const Parameter& p : run.table.parameters)
      CHECK(distance(run.gradients.data() + p.offset, golden.tensors.at(p.name)) <= floor);
  }
}
