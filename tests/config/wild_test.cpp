// Files in the wild load unchanged.
#include <filesystem>

#include <catch2/catch.hpp>

#include "hgtrain/config/load.h"

#include "support/roots.h"

using namespace hgt;

namespace {

const std::string kFolder = source_root() + "/tests/data/ds_configs/";

LoadResult load_published(const std::string& name, std::optional<std::int64_t> world = std::nullopt,
                          std::vector<std::string> overrides = {}) {
  return load_config(kFolder + name + ".json", {std::move(overrides), world});
}

const KeyReport& key(const LoadResult& result, const std::string& path) {
  for (const KeyReport& key : result.keys)
    if (key.path == path && key.given) return key;
  FAIL(path << " is not there");
  throw 0;
}

std::string texts(const LoadResult& result, Severity severity) {
  std::string out;
  for (const Problem& problem : result.problems)
    if (problem.severity == severity) out += problem.message + "\n";
  return out;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "every file loads without an error, except one with a section that DeepSpeed has removed and "
    "one that asks for Ulysses") {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".json") continue;
    const LoadResult result = load_config(file.path(), {{}, std::nullopt});
    INFO(file.path().filename() << ": " << texts(result, Severity::kError));
    const std::string name = file.path().stem();
    CHECK(result.has(Severity::kError) ==
          (name == "bing_bert_lamb" || name == "llama_factory_alst"));
    CHECK(result.has(Severity::kMissing));
    ++count;
  }
  CHECK(count == 18);
}

TEST_CASE("auto in transformers' templates means the Trainer's defaults") {
  const LoadResult result =
      load_published("transformers_zero2", 4, {"training.train_iters", "500"});
  const Config& c = result.config;
  CHECK(c.batch.micro_batch_size == 8);
  CHECK(c.batch.gradient_accumulation_steps == 1);
  CHECK(c.batch.train_batch_size == 32);
  CHECK(c.optimizer.lr == 5e-5);
  CHECK(c.scheduler.numbers.at("warmup_max_lr") == 5e-5);
  CHECK(c.scheduler.numbers.at("warmup_num_steps") == 0);
  CHECK(c.gradient_clipping == 1.0);
  CHECK(c.steps_per_print == 2000);
  CHECK(c.zero.stage == 2);
  CHECK_FALSE(key(result, "fp16.enabled").switched_on);
  CHECK(key(result, "zero_optimization.allgather_bucket_size").value == "200000000");
  const LoadResult zero3 = load_published("transformers_zero3");
  CHECK(key(zero3, "zero_optimization.sub_group_size").value == "100000000000000");
  CHECK(key(zero3, "zero_optimization.stage3_gather_16bit_weights_on_model_save").value == "true");
}

TEST_CASE("other spellings, unknown sections and floats for counts are accepted") {
  CHECK(has(texts(load_published("llama_factory_z3"), Severity::kNotice), "monitor_config"));
  CHECK(
      key(load_published("axolotl_zero3"), "zero_optimization.stage3_max_live_parameters").value ==
      "0");
  CHECK(load_published("llava_zero3_offload").config.steps_per_print == 100000);
  const LoadResult alpaca = load_published("alpaca_offload", 1, {"training.train_iters", "77"});
  CHECK(alpaca.config.scheduler.numbers.at("total_num_steps") == 77);
  const LoadResult openfold = load_published("openfold");
  CHECK(key(openfold, "bf16.enabled").value == "true");
  CHECK(key(openfold, "zero_optimization.offload_optimizer.device").value == "\"cpu\"");
  CHECK_FALSE(key(openfold, "amp.enabled").switched_on);
  CHECK(has(texts(openfold, Severity::kMissing), "the batch size is missing"));
  CHECK(key(load_published("megatron_175b"), "aio.intra_op_parallelism").value == "2");
  CHECK(has(texts(load_published("imagenet"), Severity::kNotice), "cuda_visible_devices"));
  CHECK(load_published("autotuning_blanks").config.batch.gradient_accumulation_steps == 2);
}

TEST_CASE("the batch rule counts data-parallel workers") {
  const LoadResult bloom =
      load_published("bloom_176b", 384, {"parallelism.tp", "4", "parallelism.pp", "12"});
  CHECK(bloom.config.batch.gradient_accumulation_steps == 128);
  CHECK(load_published("llama_factory_autotp", 4).config.batch.train_batch_size == 16);
}

TEST_CASE("sections that are off are accepted; those that are on are reported") {
  CHECK_FALSE(load_published("deepspeed_chat", 2).has(Severity::kError));
  CHECK(load_published("deepspeed_chat", 2).config.zero.stage == 2);
  CHECK(load_published("bing_bert_lamb", 64).config.optimizer.type == "Lamb");
  CHECK(has(texts(load_published("megatron_curriculum"), Severity::kNotBuilt),
            "curriculum_learning.enabled"));
  CHECK(has(texts(load_published("bing_bert_lamb"), Severity::kError), "sparse_attention"));
  CHECK_FALSE(has(texts(load_published("imagenet"), Severity::kNotBuilt), "zero_optimization"));
}
