#include "layer.h"

#include <catch2/catch.hpp>

#include "hgtrain/model/model.h"

#include "device_here.h"
#include "golden.h"
#include "rope_table.h"

using namespace hgt;

namespace {

/// One layer of a golden model with memory for `length` tokens.
struct LayerSetup {
  LayerSetup(const std::string& name, std::int64_t length)
      : golden(name),
        table(parameter_table(golden.model, false)),
        parameters(golden.parameters(table)),
        weights(
            bind_weights(golden.model, table, tensors_by_block(table, flat_tensor(parameters)))),
        memory(golden.model, {1, length, 1}, Device::cpu()),
        rope(golden.model, length, pool),
        layer(golden.model, 1),
        x(static_cast<std::size_t>(length * golden.model.hidden_size)) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  }
  Pass pass(std::int64_t begin, std::int64_t end) const {
    Pass out;
    out.batch = 1;
    out.length = end - begin;
    out.cos = rope.cos(begin, end);
    out.sin = rope.sin(begin, end);
    return out;
  }
  Tensor rows(std::int64_t begin, std::int64_t end) {
    return Tensor(x.data(), {static_cast<std::int64_t>(x.size()) / golden.model.hidden_size,
                             golden.model.hidden_size})
        .slice(0, begin, end);
  }

  ThreadPool pool{2};
  Golden golden;
  ParameterTable table;
  std::vector<float> parameters;
  Weights weights;
  Activations memory;
  RopeTable rope;
  Layer layer;
  std::vector<float> x;
};

void copy_rows(const Tensor& from, std::vector<float>& to) {
  for (std::int64_t n = 0; n < from.size(0); ++n)
    for (std::int64_t h = 0; h < from.size(1); ++h)
      for (std::int64_t d = 0; d < from.size(2); ++d)
        to.push_back(from.data<float>()[n * from.stride(0) + h * from.stride(1) + d]);
}

}  // namespace

TEST_CASE("a layer's parts, with keys and values kept, equal the whole layer") {
  constexpr std::int64_t kLength = 12, kFirst = 8;
  for (const std::string name : {"llama", "qwen3", "mistral"}) {
    LayerSetup s(name, kLength);
    const ModelConfig& m = s.golden.model;
    const Stream stream(s.pool);
    const LayerWeights& w = s.weights.layers[1];
    const Pass whole = s.pass(0, kLength);
    const BatchActivations memory(s.memory, 0, 1, kLength);
    const LayerState state(memory, 0);
    s.layer.forward(w, s.rows(0, kLength), whole, state, LayerScratch(memory), stream);
    const Tensor last = state.output.slice(0, kFirst, kLength);
    const std::vector<float> expected(last.data<float>(), last.data<float>() + last.numel());

    std::vector<float> keys, values;
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, kFirst}, {kFirst, kLength}}) {
      const Pass pass = s.pass(begin, end);
      const BatchActivations part_memory(s.memory, 0, 1, end - begin);
      const LayerState part(part_memory, 0);
      const QkvHeads h =
          s.layer.project(w, s.rows(begin, end), pass, part, LayerScratch(part_memory), stream);
      copy_rows(h.k, keys);
      copy_rows(h.v, values);
      const auto cached = [&](std::vector<float>& v) {
        return Tensor(v.data(), {1, end, m.num_key_value_heads, m.head_dim});
      };
      s.layer.attend(h.q, cached(keys), cached(values), pass, part, stream);
      s.layer.finish(w, s.rows(begin, end), pass, part, LayerScratch(part_memory), stream);
      if (end < kLength) continue;
      INFO(name);
      for (std::size_t i = 0; i < expected.size(); ++i)
        REQUIRE(part.output.data<float>()[i] == Approx(expected[i]).margin(1e-5));
    }
  }
}

TEST_CASE("CUDA: a layer recomputes the values it had, also in 16 bits") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module);
  const Stream stream(queue);
  constexpr std::int64_t kLength = 12;
  const Golden golden("gpt2");
  const ModelConfig& m = golden.model;
  const ParameterTable table = parameter_table(m, false);
  Pass pass;
  pass.batch = 1;
  pass.length = kLength;
  std::vector<float> values(static_cast<std::size_t>(kLength * m.hidden_size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) / 50;

  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const Recompute what : {Recompute::kSelective, Recompute::kFull}) {
      const Buffer parameters = rounded(golden.parameters(table), dtype, stream);
      const Buffer input = rounded(values, dtype, stream);
      const Weights weights = bind_weights(
          m, table,
          tensors_by_block(table,
                           Tensor(parameters.data(), {table.total}, dtype, stream.device())));
      const Tensor x(input.data(), {kLength, m.hidden_size}, dtype, stream.device());
      const Activations all(m, {1, kLength, 1, dtype}, stream.device());
      const BatchActivations memory(all, 0, 1, kLength);
      const LayerState state(memory, 0);
      const LayerScratch scratch(memory);
      const auto activated = [&] {
        std::vector<std::uint16_t> out(static_cast<std::size_t>(state.activated.numel()));
        stream.copy(out.data(), state.activated.raw(), out.size() * sizeof out[0]);
        stream.synchronize();
        return out;
      };
      const Layer layer(m, 0, what);
      layer.forward(weights.layers[0], x, pass, state, scratch, stream);
      const auto had = activated();
      layer.recompute(weights.layers[0], x, pass, state, scratch, stream);
      INFO(name_of(dtype) << (what == Recompute::kFull ? ", full" : ", selective"));
      CHECK((activated() == had));
    }
}
