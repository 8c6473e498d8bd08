// What `config show` prints is judged as its file was, and a run keeps "auto".
#include "loaded.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

namespace {

/// As `config show` makes it.
Json shown(const LoadResult& result) {
  Json json = to_json(result.config);
  keep_not_built(result, json);
  return json;
}

}  // namespace

TEST_CASE("a written config keeps keys that are not built, and still lacks what was missing") {
  for (
      const char* text :
      {R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})",
       R"({"zero_optimization": {"cpu_offload": true}, "gradient_allreduce_op": "sum"})",
       R"({"optimizer": {"type": "Muon", "params": {"muon_lr": 0.1}}, "train_batch_size": 4})",
       R"({"scheduler": {"type": "LinearLR", "params": {"total_iters": 3}}})",
       R"({"sequence_parallel_size": 2, "compression_training": {"layer_reduction": {"enabled": true}}})",
       R"({"parallelism": {"tp": 4}, "amp": {"enabled": true}, "training": {"train_iters": 3}})",
       R"({"model": {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1}})"}) {
    INFO(text);
    const LoadResult before = loaded(text, 4);
    const LoadResult after = loaded(shown(before).dump(), 4);
    for (const Severity severity : {Severity::kError, Severity::kNotBuilt, Severity::kMissing})
      CHECK(problem_text(after, severity) == problem_text(before, severity));
    CHECK(shown(after) == shown(before));
  }
  const Json muon = shown(loaded(R"({"optimizer": {"type": "Muon", "params": {"muon_lr": 0.1}}})"));
  CHECK(muon["optimizer"]["params"]["muon_lr"] == 0.1);
  CHECK_FALSE(muon.contains("model"));
}

TEST_CASE("keys that were auto can be auto again, and derived batch sizes can be left out") {
  const LoadResult result = loaded(
      R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": "auto"},
          "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "steps_per_print": "auto"})",
      4);
  Json json = to_json(result.config);
  CHECK(json["train_batch_size"] == 8);
  CHECK(json["gradient_accumulation_steps"] == 1);
  for (const char* prefix : {"train_", "gradient_accumulation_steps"})
    leave_out_derived(result, prefix, json);
  keep_auto(result, "bf16.", json);
  CHECK(json["optimizer"]["params"]["lr"] == 5e-5);
  keep_auto(result, "", json);
  CHECK(json["train_batch_size"] == "auto");
  CHECK(json["train_micro_batch_size_per_gpu"] == 2);
  CHECK_FALSE(json.contains("gradient_accumulation_steps"));
  CHECK(json["bf16"]["enabled"] == "auto");
  CHECK(json["optimizer"]["params"]["lr"] == "auto");
  CHECK(json["steps_per_print"] == 1);
  CHECK(loaded(json.dump(), 2).config.batch.train_batch_size == 4);
}

TEST_CASE("a written config can leave the length of its schedule open, and has no unread keys") {
  const char* const text =
      R"({"train_batch_size": 4, "model": {"model_type": "gpt2"}, "optimizer": {"params": {"lr": 1e-3}},
          "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2}}, "gradient_clipping": 1,
          "training": {"train_iters": 6, "seq_length": 8}, "data": {"train_data_path": "d"}})";
  const LoadResult result = loaded(text);
  Json json = to_json(result.config);
  CHECK(json["scheduler"]["params"]["total_num_steps"] == 6);
  leave_out_derived(result, "scheduler.params.", json);
  leave_out_unread(json);
  CHECK_FALSE(json["scheduler"]["params"].contains("total_num_steps"));
  CHECK(problem_text(loaded(json.dump()), Severity::kNotice) == "");
  CHECK(to_json(loaded(json.dump()).config) == to_json(result.config));
  const LoadResult longer = loaded(json.dump(), 1, {"training.train_iters", "8"});
  CHECK(longer.config.scheduler.numbers.at("total_num_steps") == 8);
}
