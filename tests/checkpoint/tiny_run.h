#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/base/philox.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/run_checkpoints.h"

#include "support/load_checkpoint.h"

namespace hgt {

inline Tensor flat_tensor(std::vector<float>& values) {
  return Tensor(values.data(), {std::ssize(values)});
}

/// A run of a made-up tied model with two tensors, whose state of step N is a function of N.
struct TinyRun {
  ModelConfig model;
  ParameterTable table;
  std::vector<float> parameters, exp_avg, exp_avg_sq;
  TrainingState state;
  std::function<bool(std::int64_t step)> is_in_use;  ///< for writers

  TinyRun() {
    model.vocab_size = 8;
    model.hidden_size = 4;
    model.intermediate_size = 16;
    model.num_hidden_layers = 1;
    model.num_attention_heads = model.num_key_value_heads = 2;
    model.head_dim = 2;
    model.max_position_embeddings = 8;
    model.hidden_act = "gelu_new";
    add("transformer.wte.weight", {8, 4});
    add("transformer.ln_f.weight", {4});
    const auto total = static_cast<std::size_t>(table.total);
    for (auto* buffer : {&parameters, &exp_avg, &exp_avg_sq}) buffer->resize(total);
  }

  FlatState flat() {
    return {
        .parameters = {flat_tensor(parameters)},
        .moments = {{"exp_avg", {flat_tensor(exp_avg)}}, {"exp_avg_sq", {flat_tensor(exp_avg_sq)}}},
        .slices = {{{0, table.total}, 0}}};
  }

  /// Sets everything to what it is after `step` steps.
  TinyRun& at(std::int64_t step) {
    std::uint64_t stream = 0;
    for (auto* buffer : {&parameters, &exp_avg, &exp_avg_sq}) {
      ++stream;
      for (const Parameter& p : table.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.numel; ++i)
          (*buffer)[static_cast<std::size_t>(i)] = uniform01(
              philox(static_cast<std::uint64_t>(step), stream, static_cast<std::uint64_t>(i))[0]);
    }
    state.step = step;
    state.consumed_samples = 3 * step;
    state.consumed_tokens = 24 * step;
    state.optimizer_steps = step;
    state.best_eval_loss = 1.0 / 3.0 + static_cast<double>(step);
    state.config_digest = 0xfedcba9876543210u;
    return *this;
  }

  /// Loads `folder` and says whether it holds exactly the state of `step`.
  bool holds(const std::string& folder, std::int64_t step) {
    TinyRun loaded, expected;
    expected.at(step);
    loaded.state = load_checkpoint(folder, model, table, loaded.flat()).state;
    return loaded.parameters == expected.parameters && loaded.exp_avg == expected.exp_avg &&
           loaded.exp_avg_sq == expected.exp_avg_sq && loaded.state == expected.state;
  }

  /// Resumes from the newest checkpoint.
  std::unique_ptr<CheckpointWriter> writer(const std::string& run_dir, std::int64_t keep = 0,
                                           bool async = false) {
    const auto newest = newest_checkpoint(run_dir);
    return writer_from(newest ? newest->path : "", run_dir, keep, async);
  }
  std::unique_ptr<CheckpointWriter> writer_from(const std::string& origin,
                                                const std::string& run_dir, std::int64_t keep = 0,
                                                bool async = false) {
    CheckpointWriter::Options options;
    options.run_dir = run_dir;
    options.origin = origin;
    options.keep_last_n = keep;
    options.async_save = async;
    options.layout = {2, 1, 1};
    options.is_in_use = is_in_use;
    return CheckpointWriter::create(model, table, options);
  }

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    Parameter p;
    p.name = name;
    p.numel = 1;
    for (const std::int64_t n : shape) p.numel *= n;
    p.local_shape = shape;
    p.shape = std::move(shape);
    p.offset = table.total;
    table.total += (p.numel + ParameterTable::kAlignment - 1) / ParameterTable::kAlignment *
                   ParameterTable::kAlignment;
    table.num_parameters += p.numel;
    table.parameters.push_back(std::move(p));
  }
};

/// The error that an action ends in; fails the test if it ends in none.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::kInternal, "(no error)");
}

}  // namespace hgt
