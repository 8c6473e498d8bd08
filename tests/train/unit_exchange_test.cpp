// Every stage of ZeRO on several ranks, with real models.
#include "unit_exchange.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "hgtrain/base/half.h"

#include "trained_ranks.h"

using namespace hgt;

namespace {

bool has_gpu() {
  try {
    return CudaModule::get(), true;
  } catch (const Error&) {
    return false;
  }
}

/// A job of one rank on a GPU: two micro-batches a step.
Config gpu_config(int stage) {
  Config config = zero_config(stage);
  config.hardware.device = "cuda";
  config.model.hidden_size = 16;
  config.model.intermediate_size = 32;
  config.model.head_dim = 4;
  config.model.num_hidden_layers = 2;
  config.training.seq_length = 4;
  config.training.eval_iters = 1;
  config.batch = {.train_batch_size = 2, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  return config;
}

/// Runs body(rank) with a rank that trains in units of one block.
void on_gpu(const Config& config, const std::function<void(TrainedRank&)>& body) {
  const CudaQueue queue(Device::cuda(0));
  const auto comm = make_self_communicator();
  TrainedRank rank(config, Groups(*comm), 1, &queue);
  body(rank);
}

Result train_on_gpu(const Config& config) {
  Result result;
  std::mutex mutex;
  on_gpu(config, [&](TrainedRank& rank) { train(rank, 3, result, mutex); });
  return result;
}

struct Variant {
  const char* name;
  void (*change)(Config&);
};

}  // namespace

TEST_CASE("without accumulation, every stage gives the bits of stage 0", "[zero]") {
  for (const bool llama : {false, true})
    for (const int ranks : {2, 3}) {
      Config config = zero_config(0, llama);
      config.batch.micro_batch_size = 6 / ranks;
      const Result expected = train(config, ranks);
      CHECK(expected.losses.back() < expected.losses.front());
      CHECK(expected.norms.front() > config.gradient_clipping);
      for (const int stage : {1, 2, 3}) {
        CAPTURE(llama, ranks, stage);
        config.zero.stage = stage;
        CHECK(train(config, ranks) == expected);
      }
    }
}

TEST_CASE("every stage gives the losses and norms of one rank, also with accumulation", "[zero]") {
  const Result one = train(zero_config(0), 1, 20);
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {2, 4}) {  // 4 ranks: some have one micro-batch, some two
      CAPTURE(stage, ranks);
      const Config config = zero_config(stage);
      const Result several = train(config, ranks, 20);
      check_near(several, one);
      CHECK(train(config, ranks, 20) == several);
    }
}

TEST_CASE("gradients sent in 16 bits are rounded, at every stage alike", "[zero]") {
  for (const char* type : {"bf16", "fp16"})
    for (const int ranks : {2, 3}) {
      Config config = zero_config(0);
      config.batch.micro_batch_size = 6 / ranks;
      const Result exact = train(config, ranks);
      config.communication_data_type = type;
      if (config.communication_data_type == "fp16") config.precision.fp16 = true;
      const Result expected = train(config, ranks);
      CHECK(expected.gradients != exact.gradients);
      CHECK(expected.losses.back() == Approx(exact.losses.back()).epsilon(0.01));
      CHECK(expected.norms.front() == Approx(exact.norms.front()).epsilon(0.01));
      for (const auto& [name, bytes] : expected.gradients)
        for (std::size_t at = 0; at < bytes.size(); at += 4) {
          float value = 0;
          std::memcpy(&value, bytes.data() + at, sizeof value);
          const float rounded = config.precision.fp16 ? float{Half(value)} : float{BFloat16(value)};
          if (value != rounded) FAIL(name << " has " << value << ", which is not of the type");
        }
      for (const int stage : {1, 2, 3}) {
        CAPTURE(type, ranks, stage);
        config.zero.stage = stage;
        CHECK(train(config, ranks) == expected);
      }
    }
}

TEST_CASE("gradients sent in bf16 of several micro-batches are near those in fp32", "[zero]") {
  Config config = zero_config(0);
  config.communication_data_type = "bf16";
  const Result alone = train(config, 1);  // sends none
  config.communication_data_type = "fp32";
  CHECK(train(config, 1) == alone);
  config.communication_data_type = "bf16";
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    config.zero.stage = stage;
    const Result sent = train(config, 4);
    CHECK(train(config, 4) == sent);
    CHECK(sent.losses.back() == Approx(alone.losses.back()).epsilon(0.01));
    CHECK(sent.norms.back() == Approx(alone.norms.back()).epsilon(0.01));
  }
}

TEST_CASE("every stage works with each optimizer, type and average", "[zero]") {
  for (const auto& [name, change] :
       {Variant{"Lamb", [](Config& c) { c.optimizer.type = "Lamb"; }},
        Variant{"SGD", [](Config& c) { c.optimizer.type = "SGD"; }},
        Variant{"bf16, average",
                [](Config& c) {
                  c.precision.bf16 = true;
                  c.training.ema_decay = 0.9;
                }},
        Variant{"bf16 state",
                [](Config& c) {
                  c.precision.bf16 = c.precision.bf16_parameters = c.precision.bf16_state = true;
                }},
        Variant{"fp16", [](Config& c) { c.precision.fp16 = true; }},
        Variant{"groups", [](Config& c) { c.training.no_decay_norms_and_biases = true; }},
        Variant{"recomputed", [](Config& c) { c.recompute.mode = "full"; }}}) {
    Config config = zero_config(0);
    config.batch.micro_batch_size = 3;
    change(config);
    const Result expected = train(config, 2);
    for (const int stage : {1, 2, 3}) {
      CAPTURE(name, stage);
      config.zero.stage = stage;
      CHECK(train(config, 2) == expected);
    }
  }
}

TEST_CASE("ranks that own nothing take part at every stage", "[zero]") {
  Config config = zero_config(0);
  config.model.vocab_size = 40;
  config.model.hidden_size = 16;
  config.model.intermediate_size = 64;
  config.model.num_hidden_layers = 1;
  config.model.num_attention_heads = config.model.num_key_value_heads = 2;
  config.model.head_dim = 8;
  config.batch.micro_batch_size = 2;
  config.training.ema_decay = 0.9;
  for (const bool bf16 : {false, true}) {
    config.precision.bf16 = bf16;
    config.zero.stage = 0;
    const Result expected = train(config, 3);
    for (const int stage : {1, 2, 3}) {
      CAPTURE(bf16, stage);
      config.zero.stage = stage;
      CHECK(train(config, 3) == expected);
    }
  }
}

TEST_CASE("units and slots of any size give the same bits", "[zero]") {
  Config config = zero_config(3);
  config.batch.micro_batch_size = 3;
  const Result expected = train(config, 2);
  for (const std::int64_t unit : {1, 250'000, 1'000'000'000})
    CHECK(train(config, 2, 4, unit) == expected);
  config.zero.prefetch_bucket_size = 0;
  CHECK(train(config, 2) == expected);
  config.zero.prefetch_bucket_size = 1;
  config.zero.max_live_parameters = 1;
  CHECK(train(config, 2) == expected);
}

TEST_CASE("CUDA: a step whose state is offloaded is the same except for the CPU's rounding") {
  if (!has_gpu()) return;
  for (const auto& [name, change] :
       {Variant{"fp32", [](Config&) {}},
        Variant{"Lamb", [](Config& c) { c.optimizer.type = "Lamb"; }},
        Variant{"bf16, average",
                [](Config& c) {
                  c.precision.bf16 = true;
                  c.training.ema_decay = 0.9;
                }},
        Variant{"bf16 state",
                [](Config& c) {
                  c.precision.bf16 = c.precision.bf16_parameters = c.precision.bf16_state = true;
                }},
        Variant{"fp16", [](Config& c) {
                  c.precision.fp16 = true;
                  c.precision.initial_scale_power = 20;  // the first step is skipped
                }}})
    for (const int stage : {0, 1, 2, 3}) {
      const bool plain = std::string(name) == "fp32";  // the others at the ends only: it is slow
      if (!plain && (stage == 1 || stage == 2)) continue;
      Config config = gpu_config(stage);
      change(config);
      const Result expected = train_on_gpu(config);
      for (const auto& [optimizer, weights] :
           {std::pair("cpu", "none"), std::pair("cpu", "cpu"), std::pair("none", "cpu")}) {
        if (stage < 3 && std::string(weights) == "cpu") continue;
        CAPTURE(name, stage, optimizer, weights);
        config.zero.offload_optimizer = optimizer;
        config.zero.offload_param = weights;
        const Result offloaded = train_on_gpu(config);
        check_near(offloaded, expected, 1e-6);
        if (plain) CHECK(train_on_gpu(config) == offloaded);
      }
    }
}

TEST_CASE("CUDA: a worker that offloads names the tensor that is not finite first") {
  if (!has_gpu()) return;
  std::vector<std::string> messages;
  for (const char* where : {"none", "cpu"}) {
    Config config = gpu_config(2);
    config.optimizer.lr = 1e30;
    config.zero.offload_optimizer = where;
    on_gpu(config, [&](TrainedRank& rank) {
      try {
        for (int i = 0; i < 5; ++i) rank.trainer.step();
      } catch (const Error& e) {
        messages.push_back(e.message());
      }
    });
  }
  REQUIRE(messages.size() == 2);
  CHECK_THAT(messages[0],
             Catch::Contains("the first tensor that is not finite is the gradient of "));
  CHECK(messages[0] == messages[1]);
}
