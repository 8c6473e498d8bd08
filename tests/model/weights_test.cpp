#include "weights.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/model/model.h"

#include "golden.h"

using namespace hgt;

namespace {

struct Bound {
  explicit Bound(const std::string& name)
      : model(Golden(name).model),
        table(parameter_table(model, true)),
        flat(static_cast<std::size_t>(table.total)),
        weights(bind_weights(model, table, tensors_by_block(table, flat_tensor(flat)))) {}
  const float* place(const std::string& name) const {
    return flat.data() + table.find(name).offset;
  }
  ModelConfig model;
  ParameterTable table;
  std::vector<float> flat;
  Weights weights;
};

}  // namespace

TEST_CASE("a weight is [in, out], however the family stores it") {
  const Bound gpt2("gpt2"), llama("llama");
  const Tensor conv1d = gpt2.weights.layers[1].up.weight;
  CHECK(conv1d.data<float>() == gpt2.place("transformer.h.1.mlp.c_fc.weight"));
  CHECK(conv1d.size(0) == 32);
  CHECK(conv1d.stride(1) == 1);
  const Tensor linear = llama.weights.layers[1].down.weight;
  CHECK(linear.data<float>() == llama.place("model.layers.1.mlp.down_proj.weight"));
  CHECK(linear.size(0) == 88);
  CHECK(linear.stride(0) == 1);
}

TEST_CASE("parameters that are computed together are one matrix") {
  const Bound llama("llama"), qwen2("qwen2");
  CHECK(llama.weights.layers[0].qkv.weight.size(1) == (4 + 2 * 2) * 8);
  CHECK(llama.weights.layers[0].up.weight.size(1) == 2 * 88);
  CHECK(!llama.weights.layers[0].qkv.bias);
  CHECK(qwen2.weights.layers[0].qkv.bias.size(0) == (4 + 2 * 2) * 8);
  CHECK(qwen2.weights.layers[0].qkv.bias.data<float>() ==
        qwen2.place("model.layers.0.self_attn.q_proj.bias"));
}

TEST_CASE("a tied output is the token embedding") {
  const Bound tied("gpt2"), untied("gpt2_untied");
  CHECK(tied.weights.output.data<float>() == tied.weights.tokens.data<float>());
  CHECK(tied.weights.output.size(0) == 32);
  CHECK(untied.weights.output.data<float>() == untied.place("lm_head.weight"));
}

TEST_CASE("only learned positions limit the sequence") {
  CHECK_NOTHROW(check_positions(Golden("gpt2").model, 32));
  CHECK_THROWS_AS(check_positions(Golden("gpt2").model, 33), Error);
  CHECK_NOTHROW(check_positions(Golden("llama").model, 33));
}
