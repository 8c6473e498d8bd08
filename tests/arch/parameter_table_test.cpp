#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>
#include <fmt/format.h>

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

namespace {

/// Small models of all families, with an odd vocabulary and any number of key/value heads.
std::vector<ModelConfig> small_models() {
  ModelConfig gpt2 = gpt2_124m(), llama = llama3_8b();
  for (ModelConfig* m : {&gpt2, &llama}) {
    m->vocab_size = 53;
    m->hidden_size = 10;
    m->intermediate_size = 48;
    m->num_hidden_layers = 2;
    m->num_attention_heads = m->num_key_value_heads = 24;
    m->head_dim = 2;
    m->max_position_embeddings = 7;
  }
  std::vector<ModelConfig> out{gpt2};
  for (const std::int64_t keys : {1, 2, 3, 4, 8, 24}) {
    llama.num_key_value_heads = keys;
    for (const char* type : {"llama", "qwen2", "qwen3"}) {
      llama.model_type = type;
      llama.attention_bias = llama.model_type == "qwen2";
      llama.mlp_bias = llama.attention_out_bias = llama.model_type == "llama";
      llama.qk_norm = llama.model_type == "qwen3";
      llama.tie_word_embeddings = llama.model_type == "qwen2";
      out.push_back(llama);
    }
  }
  return out;
}

bool fits(const ModelConfig& model, int size) {
  return model.num_key_value_heads % size == 0 || size % model.num_key_value_heads == 0;
}

}  // namespace

TEST_CASE("the parts of all tensor ranks make up each parameter, replicas counted once") {
  for (const ModelConfig& model : small_models()) {
    const ParameterTable whole = parameter_table(model, true);
    for (const int size : {1, 2, 3, 4, 8}) {
      if (!fits(model, size)) continue;
      CAPTURE(model.model_type, model.num_key_value_heads, size);
      const ParameterTable table = parameter_table(model, true, size);
      CHECK(table.num_parameters == whole.num_parameters);
      REQUIRE(table.parameters.size() == whole.parameters.size());
      for (std::size_t i = 0; i < table.parameters.size(); ++i) {
        const Parameter &p = table.parameters[i], &all = whole.parameters[i];
        INFO(p.name);
        CHECK(p.name == all.name);
        CHECK(p.shape == all.shape);
        CHECK(all.local_shape == all.shape);
        std::vector<int> covered(static_cast<std::size_t>(all.numel));
        for (int rank = 0; rank < size; ++rank) {
          const Placement place = p.placement({rank, size});
          std::int64_t local = 0, at = 0;
          place.for_each_run({0, p.numel}, [&](const Placement::Run& run) {
            CHECK(run.local >= local);
            CHECK(run.whole >= at);
            local = run.local + run.size;
            at = run.whole + run.size;
            for (std::int64_t k = run.whole; p.split.is_first({rank, size}) && k < at; ++k)
              ++covered[static_cast<std::size_t>(k)];
          });
          CHECK(local <= p.numel);
        }
        CHECK(std::ranges::count(covered, 1) == all.numel);
      }
    }
  }
}

TEST_CASE("with one tensor rank the table is that of the whole model") {
  for (const ModelConfig& model : small_models())
    for (const Parameter& p : parameter_table(model, false).parameters) {
      CHECK(p.local_shape == p.shape);
      int runs = 0;
      p.placement({}).for_each_run({3, p.numel}, [&](const Placement::Run& run) {
        ++runs;
        CHECK(run.local == 3);
        CHECK(run.whole == 3);
        CHECK(run.size == p.numel - 3);
      });
      CHECK(runs == (p.numel > 3 ? 1 : 0));
    }
}

TEST_CASE("each query head of a tensor rank finds its key and value head there") {
  for (const ModelConfig& model : small_models()) {
    if (model.model_type == "gpt2") continue;
    const std::int64_t row = model.hidden_size, head = model.head_dim * row;
    for (const int size : {1, 2, 3, 4, 8}) {
      if (!fits(model, size)) continue;
      const ParameterTable table = parameter_table(model, false, size);
      const auto& q = table.find("model.layers.1.self_attn.q_proj.weight");
      const auto& k = table.find("model.layers.1.self_attn.k_proj.weight");
      const auto& v = table.find("model.layers.1.self_attn.v_proj.weight");
      CHECK(k.offset == q.offset + q.numel);
      CHECK(v.offset == k.offset + k.numel);
      const auto head_at = [&](const Parameter& p, int rank, std::int64_t local) {
        std::int64_t found = -1;
        p.placement({rank, size})
            .for_each_run({local * head, (local + 1) * head}, [&](const Placement::Run& run) {
              CHECK(run.size == head);
              found = run.whole / head;
            });
        return found;
      };
      const std::int64_t heads = q.numel / head, shared = heads / (k.numel / head);
      CHECK(heads == model.num_attention_heads / size);
      for (int rank = 0; rank < size; ++rank)
        for (std::int64_t local = 0; local < heads; ++local) {
          const std::int64_t query = head_at(q, rank, local);
          CHECK(query == rank * heads + local);
          CHECK(head_at(k, rank, local / shared) ==
                query / (model.num_attention_heads / model.num_key_value_heads));
        }
    }
  }
}

TEST_CASE("tensor ranks have columns of a matrix, of each third of GPT-2's q, k and v") {
  const ParameterTable table = parameter_table(small_models().front(), false, 4);
  const auto& qkv = table.find("transformer.h.0.attn.c_attn.weight");  // [10, 3 * 48]
  CHECK(qkv.local_shape == std::vector<std::int64_t>{10, 36});
  const auto runs = [](const Parameter& p, int rank, Range local, Range whole) {
    std::string out;
    p.placement({rank, 4}).for_each_run(local, whole, [&](const Placement::Run& run) {
      out += fmt::format("{}+{}@{} ", run.local, run.size, run.whole);
    });
    return out;
  };
  CHECK(runs(qkv, 2, {0, 40}, {0, 1440}) == "0+12@24 12+12@72 24+12@120 36+4@168 ");
  CHECK(runs(qkv, 2, {5, 40}, {74, 169}) == "14+10@74 24+12@120 36+1@168 ");
  CHECK(runs(table.find("transformer.h.0.attn.c_attn.bias"), 1, {0, 36}, {0, 144}) ==
        "0+12@12 12+12@60 24+12@108 ");
  CHECK(runs(table.find("transformer.h.0.attn.c_proj.weight"), 3, {0, 120}, {0, 480}) ==
        "0+120@360 ");
  CHECK(table.find("transformer.h.0.attn.c_proj.bias").numel == 10);
  const auto& tokens = table.find("transformer.wte.weight");  // 53 rows: 14, 14, 14, 11
  CHECK(tokens.local_shape == std::vector<std::int64_t>{14, 10});
  CHECK(runs(tokens, 3, {0, 140}, {0, 530}) == "0+110@420 ");
}

TEST_CASE("more tensor ranks than tokens leave some without any") {
  ModelConfig model = small_models().front();
  model.vocab_size = 5;
  const ParameterTable table = parameter_table(model, false, 4);
  const auto& tokens = table.find("transformer.wte.weight");
  CHECK(tokens.local_shape == std::vector<std::int64_t>{2, 10});
  tokens.placement({3, 4}).for_each_run({0, 20}, [](const Placement::Run&) { FAIL("a run"); });
}

TEST_CASE("a padded vocabulary has the rows of the unpadded one, and then rows of padding") {
  ModelConfig model = gpt2_124m();
  model.tie_word_embeddings = false;
  for (const auto& [ranks, rows] : {std::pair{1, 50304}, {4, 12672}}) {
    const ParameterTable table = parameter_table(model, false, ranks, 128);
    CHECK(table.vocabulary_rows() == rows);
    CHECK(tensor_part(model, ranks, 128).vocab_size == rows);
    CHECK(table.num_parameters == parameter_table(model, false).num_parameters);
    for (const char* name : {"transformer.wte.weight", "lm_head.weight"}) {
      const Parameter& p = table.find(name);
      CHECK(p.shape == std::vector<std::int64_t>{50257, 768});
      CHECK(p.local_shape == std::vector<std::int64_t>{rows, 768});
      std::int64_t next = 0;
      for (TensorRank at{0, ranks}; at.rank < ranks; ++at.rank)
        p.placement(at).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
          CHECK(run.local == 0);
          CHECK(run.whole == next);
          next += run.size;
        });
      CHECK(next == std::int64_t{50257} * 768);
    }
    for (const Parameter& p : table.parameters)
      if (p.name.find("transformer.h.") == 0 && ranks == 1) CHECK(p.local_shape == p.shape);
  }
}

TEST_CASE("a tensor rank's part of a model has the sizes of its parameters") {
  const ModelConfig part = tensor_part(llama3_8b(), 16);
  CHECK(part.num_attention_heads == 2);
  CHECK(part.num_key_value_heads == 1);
  CHECK(part.intermediate_size == 896);
  CHECK(part.vocab_size == 8016);
  CHECK(tensor_part(gpt2_124m(), 4).vocab_size == 12565);  // three of four rows more than 50257
}

TEST_CASE("gradients that ranks with the same heads compute in parts") {
  ModelConfig model = llama3_8b();
  model.qk_norm = true;
  const auto shared = [&](int ranks) {
    return partial_gradients(parameter_table(model, false, ranks), ranks, false);
  };
  CHECK(shared(1).empty());
  CHECK(shared(8).size() == 32);  // two gains a layer, side by side
  CHECK(shared(8)[0].elements.size() == 2 * 128);
  CHECK(shared(8)[0].parts == 1);
  const std::vector<PartialGradients> with_keys = shared(16);
  CHECK(with_keys.size() == 64);
  CHECK(with_keys[0].elements.size() == 2 * 128 * 4096);  // keys and values of one head
  CHECK(with_keys[0].parts == 8);
  CHECK(partial_gradients(parameter_table(gpt2_124m(), false, 4), 4, false).empty());
}

TEST_CASE("gradients that ranks compute in parts because they split rows: those of norms") {
  ModelConfig model = gpt2_124m();
  model.hidden_size = 72;  // padded to 128
  model.head_dim = 6;
  for (const bool apart : {false, true}) {
    const ParameterTable table = parameter_table(model, apart, 4);
    const std::vector<PartialGradients> partial = partial_gradients(table, 4, true);
    CHECK(partial.size() == 25);
    std::int64_t elements = 0;
    for (const auto& [range, parts] : partial) {
      CHECK(parts == 1);
      elements += range.size();
    }
    CHECK(elements == 25 * (128 + 72));  // gain, padding and bias
    CHECK(partial.back().elements.begin >= table.block(13).begin);
  }
  CHECK(partial_gradients(parameter_table(model, false), 1, true).empty());
}

TEST_CASE("a number of tensor ranks that does not fit is refused") {
  CHECK_THROWS_WITH(parameter_table(llama3_8b(), false, 3),
                    Catch::StartsWith("parallelism.tensor_parallel_size = 3 does not fit"));
  CHECK_NOTHROW(parameter_table(llama3_8b(), false, 16));  // pairs share a key/value head
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
