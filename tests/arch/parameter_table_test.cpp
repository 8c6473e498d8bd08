#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/error.h"

#include "models.h"

using namespace hgt;

TEST_CASE("published models have their published number of parameters") {
  CHECK(parameter_table(gpt2_124m(), false).num_parameters == 124439808);
  CHECK(parameter_table(llama3_8b(), false).num_parameters == 8030261248);
}

TEST_CASE("parameters are ordered by block, those that decay first, aligned, without overlap") {
  for (const bool no_decay : {false, true})
    for (const ModelConfig& model : {gpt2_124m(), llama3_8b()}) {
      const ParameterTable table = parameter_table(model, no_decay);
      std::int64_t end = 0;
      int block = 0;
      bool decay = true;
      for (const Parameter& p : table.parameters) {
        INFO(p.name);
        CHECK(p.offset >= end);
        CHECK(p.offset - end < ParameterTable::kAlignment);
        CHECK(p.decay == !(no_decay && p.shape.size() == 1));
        CHECK(p.block >= block);
        if (p.block == block) CHECK(decay >= p.decay);
        block = p.block;
        decay = p.decay;
        end = p.offset + p.numel;
      }
      CHECK(table.total >= end);
      CHECK(table.total % ParameterTable::kAlignment == 0);
    }
}

TEST_CASE("blocks are contiguous, aligned, and hold their parameters") {
  const ParameterTable table = parameter_table(gpt2_124m(), true);
  const std::vector<Range> blocks = table.blocks();
  REQUIRE(blocks.size() == 14);
  CHECK(table.num_blocks() == 14);
  CHECK(blocks.front().begin == 0);
  CHECK(blocks.back().end == table.total);
  for (std::size_t i = 1; i < blocks.size(); ++i) CHECK(blocks[i].begin == blocks[i - 1].end);
  for (const Range& block : blocks) CHECK(block.begin % ParameterTable::kAlignment == 0);
  for (const Parameter& p : table.parameters) {
    CHECK(p.offset >= table.block(p.block).begin);
    CHECK(p.offset + p.numel <= table.block(p.block).end);
  }
  CHECK(ParameterTable{}.blocks().empty());
}

TEST_CASE("q, k, v and gate, up are one matrix each") {
  ModelConfig model = llama3_8b();
  model.attention_bias = true;
  model.head_dim = 2;  // so small that padding would show
  for (const bool no_decay : {false, true}) {
    const ParameterTable table = parameter_table(model, no_decay);
    const auto follows = [&](const std::string& first, const std::string& second) {
      const Parameter& p = table.find("model.layers.3." + first);
      return table.find("model.layers.3." + second).offset == p.offset + p.numel;
    };
    CHECK(follows("self_attn.q_proj.weight", "self_attn.k_proj.weight"));
    CHECK(follows("self_attn.k_proj.weight", "self_attn.v_proj.weight"));
    CHECK(follows("self_attn.q_proj.bias", "self_attn.k_proj.bias"));
    CHECK(follows("self_attn.k_proj.bias", "self_attn.v_proj.bias"));
    CHECK(follows("mlp.gate_proj.weight", "mlp.up_proj.weight"));
    CHECK(table.find(4, Role::kQkvWeight)->name == "model.layers.3.self_attn.q_proj.weight");
  }
}

TEST_CASE("initial values are those of transformers") {
  const ParameterTable table = parameter_table(gpt2_124m(), false);
  const auto init = [&](const std::string& name) { return table.find(name).init; };
  CHECK(init("transformer.wte.weight").std == 0.02);
  CHECK(init("transformer.h.0.attn.c_attn.weight").std == 0.02);
  CHECK(init("transformer.h.0.attn.c_proj.weight").std == Approx(0.02 / std::sqrt(24.0)));
  CHECK(init("transformer.h.0.mlp.c_proj.weight").std == Approx(0.02 / std::sqrt(24.0)));
  CHECK(init("transformer.h.0.mlp.c_proj.bias").kind == Init::kZeros);
  CHECK(init("transformer.ln_f.weight").kind == Init::kOnes);
  const ParameterTable llama = parameter_table(llama3_8b(), false);
  CHECK(llama.find("model.layers.0.mlp.down_proj.weight").init.std == 0.02);
  CHECK(llama.find("model.norm.weight").init.kind == Init::kOnes);
}

TEST_CASE("an unknown family, missing sizes and sizes that do not fit are refused") {
  const auto message = [](auto change) -> std::string {
    ModelConfig model = llama3_8b();
    change(model);
    try {
      parameter_table(model, false);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kConfig);
      return e.message();
    }
    return "";
  };
  CHECK(message([](ModelConfig& m) { m.model_type = "mamba"; }) ==
        "model_type \"mamba\" is not supported");
  CHECK(message([](ModelConfig& m) { m.hidden_size = 0; }) ==
        "model.hidden_size = 0 is not within 1 to 2147483648");
  CHECK(message([](ModelConfig& m) { m.num_key_value_heads = 5; }) ==
        "model.num_key_value_heads = 5 does not divide num_attention_heads = 32");
  CHECK(message([](ModelConfig& m) { m.head_dim = 7; }).find("odd") != std::string::npos);
  CHECK(message([](ModelConfig& m) { m.num_hidden_layers = 1 << 30; }) ==
        "model.num_hidden_layers = 1073741824 is not within 1 to 65536");
  CHECK(message([](ModelConfig& m) {
          m.vocab_size = m.hidden_size = std::int64_t{1} << 31;
        }).find("overflows") != std::string::npos);
  CHECK_THROWS_AS(parameter_table(gpt2_124m(), false).find("lm_head.weight"), Error);
}
