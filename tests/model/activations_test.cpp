#include "activations.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "golden.h"

using namespace hgt;

TEST_CASE("a smaller batch has the plan's shapes for its size, in the same memory") {
  const Golden golden("gpt2");
  const std::int64_t width = golden.model.hidden_size;
  const Activations memory(golden.model, {2, 12, 2}, Device::cpu());
  const BatchActivations whole(memory, 0, 2, 12), part(memory, 0, 1, 5);
  CHECK(whole.get("embedded").size(0) == 24);
  CHECK(part.get("embedded").size(0) == 5);
  CHECK(part.get("embedded").size(1) == width);
  CHECK(part.get("embedded").raw() == whole.get("embedded").raw());
  CHECK((whole.is_for(2, 12) && !whole.is_for(1, 12) && !whole.is_for(2, 11)));
}

TEST_CASE("slots and layers have tensors of their own; temporaries are shared") {
  const Golden golden("gpt2");
  const Activations memory(golden.model, {1, 8, 2}, Device::cpu());
  const BatchActivations first(memory, 0, 1, 8), second(memory, 1, 1, 8);
  CHECK(first.get("losses").raw() != second.get("losses").raw());
  CHECK(first.get("branch").raw() == second.get("branch").raw());
  CHECK(first.of_layer("output", 0).raw() != first.of_layer("output", 1).raw());
  CHECK(first.of_layer("output", 1).raw() != second.of_layer("output", 1).raw());
}

TEST_CASE("recomputed layers share one tensor, the others have their own") {
  const Golden golden("gpt2");
  const std::int64_t layers = golden.model.num_hidden_layers;
  REQUIRE(layers >= 2);
  const Activations memory(golden.model, {1, 8, 1, DType::kF32, Recompute::kFull, layers - 1},
                           Device::cpu());
  const BatchActivations batch(memory, 0, 1, 8);
  CHECK(batch.of_layer("up", 0).raw() != batch.of_layer("up", layers - 1).raw());
  for (std::int64_t i = 1; i + 1 < layers; ++i)
    CHECK(batch.of_layer("up", i).raw() == batch.of_layer("up", 0).raw());
  CHECK(batch.of_layer("output", 0).raw() != batch.of_layer("output", 1).raw());
}

TEST_CASE("only what the family has is there, and only what fits") {
  const Golden gpt2("gpt2"), qwen3("qwen3");
  const Activations without(gpt2.model, {1, 8, 1}, Device::cpu());
  const Activations with(qwen3.model, {1, 8, 1}, Device::cpu());
  const BatchActivations batch(without, 0, 1, 8);
  CHECK_FALSE(batch.has("q_scale"));
  CHECK(BatchActivations(with, 0, 1, 8).has("q_scale"));
  CHECK_THROWS_WITH(batch.get("q_scale"), "no activation is called q_scale");
  CHECK_THROWS_WITH(BatchActivations(without, 0, 2, 8).get("embedded"),
                    Catch::Contains("activation embedded: copy 0 of 1"));
}

TEST_CASE("with a split backward, each tensor is kept for the micro-batches that need it") {
  const Golden golden("gpt2");
  const std::int64_t layers = golden.model.num_hidden_layers;
  ActivationSizes sizes{1, 8, 1, DType::kF32, Recompute::kFull, 1};
  sizes.split = {3, 2};
  const Activations memory(golden.model, sizes, Device::cpu());
  const auto at = [&](std::int64_t micro, const char* name, std::int64_t layer) {
    const BatchActivations batch(memory, micro, 1, 8);
    return batch.find_of_layer(name, layer).raw();
  };
  // The last layer is kept, the first one recomputed.
  CHECK(at(0, "qkv", layers - 1) == at(1, "qkv", layers - 1));
  CHECK(at(0, "norm2", layers - 1) != at(2, "norm2", layers - 1));
  CHECK(at(0, "norm2", layers - 1) == at(3, "norm2", layers - 1));
  CHECK(at(0, "norm2", 0) == at(1, "norm2", 0));
  CHECK(at(0, "recomputed norm2", layers - 1) == nullptr);
  for (const auto& [name, layer] : {std::pair("d_up", layers - 1), {"recomputed norm2", 0}}) {
    CAPTURE(name);
    CHECK(at(0, name, layer) != at(1, name, layer));
    CHECK(at(0, name, layer) == at(2, name, layer));
  }
}

TEST_CASE("the slots of several ranges follow one another; temporaries are shared by all") {
  const Golden golden("gpt2");
  REQUIRE(golden.model.num_hidden_layers >= 2);
  const std::int64_t head = golden.model.num_hidden_layers + 1;
  ActivationSizes first{1, 8, 2, DType::kF32, Recompute::kFull, 2}, last = first;
  first.blocks = {0, 2};
  last.blocks = {2, head + 1};
  last.slots = 1;
  const Activations memory(golden.model, std::vector{first, last}, Device::cpu());
  const BatchActivations slots[] = {{memory, 0, 1, 8}, {memory, 1, 1, 8}, {memory, 2, 1, 8}};
  for (const char* name : {"embedded", "d_hidden"}) {
    CHECK(slots[0].get(name).raw() != slots[1].get(name).raw());
    CHECK(slots[1].get(name).raw() != slots[2].get(name).raw());
  }
  CHECK(slots[1].of_layer("output", 0).raw() != slots[2].of_layer("output", 0).raw());
  CHECK(slots[0].get("branch").raw() == slots[2].get("branch").raw());
  // The first layer of each range is recomputed.
  CHECK(slots[0].of_layer("up", 0).raw() == slots[2].of_layer("up", 0).raw());
  CHECK_FALSE(slots[0].has("losses"));
  CHECK(slots[2].has("losses"));
}
