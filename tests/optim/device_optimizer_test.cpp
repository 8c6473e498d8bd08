#include "device_optimizer.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "optimizer_runs.h"
#include "sharded_runs.h"

using namespace hgt;

namespace {

/// The built module if it finds a device, else null.
const CudaModule* module_with_device() {
  try {
    return &CudaModule::get();
  } catch (const Error&) {
    return nullptr;
  }
}

float value_at(std::size_t i, int of) {
  return std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(of));
}

/// The parameters after three updates on a device.
std::vector<float> updated_on_device(const OptimizerConfig& config, const ParameterTable& table,
                                     const CudaModule& module) {
  const CudaQueue queue(Device::cuda(0), module);
  const Buffer parameters("parameters", table.total * 4, queue.device()),
      gradients("gradients", table.total * 4, queue.device());
  const Buffer update_memory("update", sizeof(Update), queue.device());
  std::vector<Buffer> state;
  const auto flat = [&](const Buffer& buffer) {
    return Tensor(buffer.data(), {table.total}, DType::kF32, queue.device());
  };
  Optimizer::Buffers buffers{{flat(parameters)}, {flat(gradients)}, {}};
  for (const std::string& name : optimizer_state(config))
    buffers.state.push_back({flat(state.emplace_back(name, table.total * 4, queue.device()))});
  Optimizer optimizer(config, table, buffers, queue);
  std::vector<float> values(static_cast<std::size_t>(table.total));
  const auto copy_values = [&](const Buffer& to, int of) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(i, of);
    queue.copy(to.data(), values.data(), values.size() * sizeof(float));
    queue.synchronize();
  };
  copy_values(parameters, 0);
  for (int t = 1; t <= 3; ++t) {
    copy_values(gradients, t);
    Update update = optimizer.constants({0.01, {}, {}}, t);
    update.gradient_factor = 0.7f;
    queue.copy(update_memory.data(), &update, sizeof update);
    queue.synchronize();
    optimizer.prepare(static_cast<const Update*>(update_memory.data()));
    optimizer.step(static_cast<const Update*>(update_memory.data()));
  }
  queue.copy(values.data(), parameters.data(), values.size() * sizeof(float));
  queue.synchronize();
  return values;
}

std::vector<float> updated_on_cpu(const OptimizerConfig& config, const ParameterTable& table) {
  OptimizerRun run(config, table);
  for (std::size_t i = 0; i < run.parameters.size(); ++i) run.parameters[i] = value_at(i, 0);
  for (int t = 1; t <= 3; ++t) {
    for (std::size_t i = 0; i < run.gradients.size(); ++i) run.gradients[i] = value_at(i, t);
    run.step({0.01, {}, {}}, 0.7, t);
  }
  return run.parameters;
}

}  // namespace

TEST_CASE("CUDA: every optimizer updates device memory as it does the CPU's") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr) return;
  const ParameterTable table = table_of({20'000, 5, 300}, 2);
  for (const OptimizerConfig& config : every_optimizer()) {
    INFO(config.type);
    const std::vector<float> expected = updated_on_cpu(config, table);
    const std::vector<float> actual = updated_on_device(config, table, *module);
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, static_cast<double>(std::abs(actual[i] - expected[i])));
    CHECK(largest < 1e-6);
    CHECK(actual[0] != value_at(0, 0));
  }
}

TEST_CASE("CUDA: any number of ranks updates every element as one rank does, bit for bit") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module);
  for (const OptimizerConfig& config : every_optimizer()) check_shards(config, queue);
  check_sharded_norm(queue);
  check_sharded_average(queue);
}
