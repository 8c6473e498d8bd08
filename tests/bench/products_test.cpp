#include "products.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/flops.h"
#include "hgtrain/config/config.h"

using namespace hgt;

namespace {

Config config_of(const char* family) {
  Config config;
  ModelConfig& m = config.model;
  m.model_type = family;
  m.vocab_size = 40;
  m.hidden_size = 16;
  m.intermediate_size = 64;
  m.num_hidden_layers = 3;
  m.num_attention_heads = m.num_key_value_heads = 2;
  m.head_dim = 8;
  m.max_position_embeddings = 8;
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 4, .micro_batch_size = 2, .gradient_accumulation_steps = 2};
  return config;
}

double flops_of(const std::vector<Product>& products) {
  double sum = 0;
  for (const Product& product : products) sum += product.step_flops;
  return sum;
}

}  // namespace

TEST_CASE("the weight products of a step are its arithmetic except for attention") {
  for (const char* family : {"gpt2", "llama"}) {
    const Config config = config_of(family);
    const ModelConfig& m = config.model;
    const auto products = weight_products(config);
    REQUIRE(products.size() == 15);
    CHECK(products[0].m == 16);                               // rows of a micro-batch
    const double attention = 12.0 * 16 * (8 / 2.0) * 3 * 32;  // 12 H D T/2 a layer and token
    CHECK(flops_of(products) == train_flops(m, 8, 32) - attention);
  }
}

TEST_CASE("forwards that are recomputed count twice, except for the MLP's second product") {
  Config config = config_of("gpt2");
  const auto kept = weight_products(config);
  config.recompute = {"full", 2};  // of 3 layers
  const auto recomputed = weight_products(config);
  REQUIRE(recomputed.size() == kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::string& name = kept[i].name;
    INFO(name);
    const bool again = name == "qkv fwd" || name == "attention out fwd" || name == "up fwd";
    CHECK(recomputed[i].step_flops == kept[i].step_flops * (again ? 5 : 3) / 3);
  }
}

TEST_CASE("every product runs, in every type, as its layer is stored") {
  ThreadPool pool(2);
  for (const char* family : {"gpt2", "llama"}) {
    const auto products = weight_products(config_of(family));
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const ProductRunner runner(products, dtype, pool);
      for (const Product& product : products) CHECK(runner.run(product) > 0);
    }
  }
}
