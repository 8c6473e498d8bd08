#include "layer.h"

#include <catch2/catch.hpp>

#include "golden.h"
#include "rope_table.h"

using namespace hgt;

namespace {

/// One layer of a golden model with memory for `length` tokens.
struct Setup {
  Setup(const std::string& name, std::int64_t length)
      : golden(name),
        table(parameter_table(golden.model, false)),
        parameters(golden.parameters(table)),
        weights(bind_weights(golden.model, table, flat_tensor(parameters))),
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

TEST_CASE("a layer's parts, with keys and values kept, give what the whole gives") {
  constexpr std::int64_t kLength = 12, kFirst = 8;
  for (const std::string name : {"llama", "qwen3", "mistral"}) {
    Setup s(name, kLength);
    const ModelConfig& m = s.golden.model;
    const Stream stream(s.pool);
    const LayerWeights& w = s.weights.layers[1];
    const Pass whole = s.pass(0, kLength);
    const LayerState state(s.memory, 0, 0, m, whole);
    s.layer.forward(w, s.rows(0, kLength), whole, state, LayerScratch(s.memory, m, whole), stream);
    const Tensor last = state.output.slice(0, kFirst, kLength);
    const std::vector<float> expected(last.data<float>(), last.data<float>() + last.numel());

    std::vector<float> keys, values;
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, kFirst}, {kFirst, kLength}}) {
      const Pass pass = s.pass(begin, end);
      const LayerState part(s.memory, 0, 0, m, pass);
      const Heads h = s.layer.project(w, s.rows(begin, end), pass, part, stream);
      copy_rows(h.k, keys);
      copy_rows(h.v, values);
      const auto cached = [&](std::vector<float>& v) {
        return Tensor(v.data(), {1, end, m.num_key_value_heads, m.head_dim});
      };
      s.layer.attend(h.q, cached(keys), cached(values), pass, part, stream);
      s.layer.finish(w, s.rows(begin, end), pass, part, LayerScratch(s.memory, m, pass), stream);
      if (end < kLength) continue;
      INFO(name);
      for (std::size_t i = 0; i < expected.size(); ++i)
        REQUIRE(part.output.data<float>()[i] == Approx(expected[i]).margin(1e-5));
    }
  }
}
