#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "hgtrain/arch/flat_spec.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/optim/optimizer.h"

namespace hgt {

/// Adds a tensor to a table.
inline void add_tensor(ParameterTable& table, std::int64_t size, bool decay, int block = 0) {
  Parameter p;
  p.numel = size;
  p.shape = p.local_shape = {size};
  p.offset = table.total;
  p.decay = decay;
  p.block = block;
  table.parameters.push_back(p);
  table.total += (size + ParameterTable::kAlignment - 1) / ParameterTable::kAlignment *
                 ParameterTable::kAlignment;
}

/// Tensors of these sizes in a flat buffer; those from number `decaying` on do not decay.
inline ParameterTable table_of(const std::vector<std::int64_t>& sizes, std::size_t decaying) {
  ParameterTable table;
  for (std::size_t i = 0; i < sizes.size(); ++i) add_tensor(table, sizes[i], i < decaying);
  return table;
}

/// A matrix of which each of `parts` tensor ranks has a part.
inline ParameterTable table_of_part(std::int64_t rows, std::int64_t columns, const Split& split) {
  ParameterTable table;
  add_tensor(table, rows * columns / split.parts, true);
  Parameter& p = table.parameters[0];
  p.name = "matrix";
  p.split = split;
  p.shape = p.local_shape = {rows, columns};
  p.local_shape[static_cast<std::size_t>(split.axis)] /= split.parts;
  return table;
}

template <class T>
Tensor flat_tensor(std::vector<T>& values, DType dtype = DType::kF32) {
  return Tensor(values.data(), {std::ssize(values)}, dtype);
}

/// An optimizer over flat buffers that start at zero.
struct OptimizerRun {
  OptimizerRun(const OptimizerConfig& config, const ParameterTable& parameter_table,
               int threads = 1)
      : table(parameter_table),
        parameters(static_cast<std::size_t>(table.total)),
        gradients(parameters.size()),
        state(optimizer_state(config).size(), parameters),
        pool(threads),
        optimizer(config, table, buffers(), pool) {}

  /// Update number t, of the gradients times `gradient_factor`.
  void step(const Rate& rate, double gradient_factor, std::int64_t t) {
    Update update = optimizer.constants(rate, t);
    update.gradient_factor = static_cast<float>(gradient_factor);
    optimizer.prepare(&update);
    optimizer.step(&update);
  }

  Optimizer::Buffers buffers() {
    Optimizer::Buffers out{{flat_tensor(parameters)}, {flat_tensor(gradients)}, {}};
    for (std::vector<float>& values : state) out.state.push_back({flat_tensor(values)});
    return out;
  }

  const ParameterTable table;
  std::vector<float> parameters, gradients;
  std::vector<std::vector<float>> state;
  ThreadPool pool;
  Optimizer optimizer;
};

/// Parameters after three updates of tensors that are larger than a thread's share.
inline std::vector<float> updated_by(const OptimizerConfig& config, int threads) {
  OptimizerRun run(config, table_of({100'003, 7, 64 * 1024}, 2), threads);
  for (const Parameter& p : run.table.parameters)
    for (std::int64_t i = p.offset; i < p.offset + p.numel; ++i)
      run.parameters[static_cast<std::size_t>(i)] = std::sin(static_cast<float>(i));
  for (int t = 1; t <= 3; ++t) {
    for (const Parameter& p : run.table.parameters)
      for (std::int64_t i = p.offset; i < p.offset + p.numel; ++i)
        run.gradients[static_cast<std::size_t>(i)] = std::cos(static_cast<float>(i * t));
    run.step({0.01, {}, {}}, 0.7, t);
  }
  return run.parameters;
}

}  // namespace hgt
