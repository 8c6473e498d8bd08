#include <fmt/format.h>

#include "loaded.h"

using namespace hgt;

TEST_CASE("names from other programs are understood") {
  const Config c = loaded(R"({
    "training": {"max_steps": 5, "sequence_len": 7, "eval_steps": 3, "early_stopping_patience": 2, "logging_steps": 4},
    "data": {"data_path": ["a"], "val_set_size": 0.25},
    "tokenizer": {"tokenizer_name_or_path": "t"},
    "checkpoint": {"save_steps": 6, "save_total_limit": 2},
    "distributed": {"distributed_timeout_minutes": 3},
    "hetero": {"threads": 2}})")
                       .config;
  CHECK(c.training.train_iters == 5);
  CHECK(c.training.seq_length == 7);
  CHECK(c.training.eval_interval == 3);
  CHECK(c.training.patience == 2);
  CHECK(c.steps_per_print == 4);
  CHECK(c.data.train.at(0).path == "a");
  CHECK(c.data.valid_fraction == 0.25);
  CHECK(c.tokenizer.path == "t");
  CHECK(c.checkpoint.save_interval == 6);
  CHECK(c.checkpoint.keep_last_n == 2);
  CHECK(c.distributed.timeout_minutes == 3);
  CHECK(c.hardware.threads == 2);
}

TEST_CASE("Megatron's split sets the fraction for validation") {
  CHECK(loaded(R"({"data": {"split": "969,30,1"}})").config.data.valid_fraction == 0.03);
  CHECK(loaded(R"({"data": {"split": "9,1"}})").config.data.valid_fraction == 0.1);
  for (const char* wrong : {"\"all\"", "\"1\"", "5", "\"-1,2\""})
    CHECK(contains(errors(std::string(R"({"data": {"split": )") + wrong + "}}"),
                   "data.valid_fraction must be"));
}

TEST_CASE("recomputing is used, and keys of its section that are not built are refused") {
  CHECK(
      problem_text(
          loaded(
              R"({"activation_checkpointing": {"partition_activations": false, "mode": "none"}})"),
          Severity::kNotBuilt) == "");
  const LoadResult full =
      loaded(R"({"activation_checkpointing": {"mode": "full", "checkpoint_num_layers": 3}})");
  CHECK(problem_text(full, Severity::kNotBuilt) == "");
  CHECK(full.config.recompute.mode == "full");
  CHECK(full.config.recompute.num_layers == 3);
  for (const char* on : {R"("cpu_checkpointing": true)", R"("enabled": true)"})
    CHECK(
        contains(problem_text(loaded(std::string(R"({"activation_checkpointing": {)") + on + "}}"),
                              Severity::kNotBuilt),
                 "activation_checkpointing.mode"));
}

TEST_CASE("how DeepSpeed allocates and times recomputed activations has no effect") {
  const LoadResult result = loaded(R"({"activation_checkpointing": {
      "contiguous_memory_optimization": true, "number_checkpoints": 4,
      "synchronize_checkpoint_boundary": true, "profile": true}})");
  CHECK(problem_text(result, Severity::kNotBuilt) == "");
  for (const char* key : {"contiguous_memory_optimization", "number_checkpoints",
                          "synchronize_checkpoint_boundary", "profile"})
    CHECK(contains(problem_text(result, Severity::kNotice), key));
}

TEST_CASE("checkpoint keys that a flag replaces name the flag") {
  const LoadResult result =
      loaded(R"({"checkpoint": {"tag_validation": "ignore", "load_universal": true,
      "writer": {"type": "fast"}, "parallel_write": {"pipeline_stage": false}, "async_save": false}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK_FALSE(result.config.checkpoint.async_save);
  CHECK(contains(errors(R"({"checkpoint": {"tag_validation": "foo"}})"),
                 "one of: Ignore, Warn, Fail"));
  CHECK(contains(problem_text(loaded(R"({"checkpoint": {"load": "x"}})"), Severity::kNotBuilt),
                 "type --resume PATH"));
}

TEST_CASE("ranges and choices are checked") {
  CHECK(errors(R"({"data": {"valid_fraction": 0.9}})") != "");
  CHECK(errors(R"({"distributed": {"timeout_minutes": 0}})") != "");
  CHECK(contains(errors(R"({"hardware": {"device": "gpu"}})"), "| use cuda"));
  CHECK(contains(errors(R"({"hardware": {"device": "tpu"}})"), "\"tpu\" is not known"));
  CHECK(contains(errors(R"({"distributed": {"backend": "mpi"}})"), "\"mpi\" is not known"));
}

TEST_CASE("a key without effect here still comes from where it was given") {
  const LoadResult result =
      loaded(R"({"activation_checkpointing": {"partition_activations": true}})");
  const auto key = std::ranges::find(result.keys, "activation_checkpointing.partition_activations",
                                     &KeyReport::path);
  REQUIRE(key != result.keys.end());
  CHECK(key->origin.kind == OriginKind::kFile);
}

TEST_CASE("partition_activations has no effect without tensor parallelism") {
  const auto unbuilt = [](const std::string& tp) {
    return problem_text(loaded(R"({"activation_checkpointing": {"partition_activations": true},
                           "parallelism": {"tensor_parallel_size": )" +
                               tp + "}}"),
                        Severity::kNotBuilt);
  };
  CHECK_FALSE(contains(unbuilt("1"), "partition_activations"));
  CHECK(contains(unbuilt("2"), "partition_activations"));
}

TEST_CASE("sequence_parallel has no effect without tensor parallelism") {
  const auto at = [](const std::string& tp) {
    return loaded(R"({"parallelism": {"sequence_parallel": true, "tensor_parallel_size": )" + tp +
                  "}}");
  };
  CHECK(contains(problem_text(at("1"), Severity::kNotice),
                 "parallelism.sequence_parallel has no effect without tensor parallelism | set "
                 "parallelism.tensor_parallel_size"));
  CHECK_FALSE(contains(problem_text(at("2"), Severity::kNotice), "sequence_parallel"));
  CHECK(at("2").config.parallelism.sequence_parallel);
}

TEST_CASE("a schedule has no effect without a pipeline") {
  const auto notices = [](const std::string& keys) {
    return problem_text(
        loaded(fmt::format(R"({{"parallelism": {{"pipeline_schedule": {}}}}})", keys)),
        Severity::kNotice);
  };
  CHECK(contains(notices("\"zb_h1\""),
                 "parallelism.pipeline_schedule = \"zb_h1\" has no effect without a pipeline | set "
                 "parallelism.pipeline_parallel_size"));
  CHECK_FALSE(contains(notices("\"1f1b\""), "pipeline_schedule"));
  CHECK_FALSE(contains(notices(R"("zb_h1", "pp": 2)"), "pipeline_schedule"));
}

TEST_CASE("a layout's problem names the keys of the model as they were given") {
  const auto problems_of = [](const char* heads) {
    return errors(fmt::format(R"({{"model": {{"model_type": "gpt2", "{}": 4, "n_embd": 64}},
                                  "parallelism": {{"tp": 3}}}})",
                              heads));
  };
  CHECK(contains(problems_of("num_attention_heads"),
                 "it must divide num_attention_heads = 4 and n_inner"));
  CHECK(contains(problems_of("n_head"), "it must divide n_head = 4 and n_inner"));
}

TEST_CASE("activation_checkpointing.enabled leads to the mode") {
  CHECK(contains(problem_text(loaded(R"({"activation_checkpointing": {"enabled": true}})"),
                              Severity::kNotBuilt),
                 "activation_checkpointing.mode: full"));
}

TEST_CASE("with early stopping the best checkpoint is kept, unless the config says otherwise") {
  const auto keeps = [](const std::string& checkpoint, const std::string& training) {
    return loaded(R"({"checkpoint": {)" + checkpoint + R"(}, "training": {)" + training + "}}")
        .config.checkpoint.keep_best;
  };
  const std::string stops_early = R"("patience": 3, "eval_interval": 10)";
  CHECK(keeps("", stops_early));
  CHECK(keeps(R"("keep_best": "auto")", stops_early));
  CHECK_FALSE(keeps(R"("keep_best": false)", stops_early));
  CHECK_FALSE(keeps("", R"("eval_interval": 10)"));
  CHECK_FALSE(keeps("", R"("patience": 3)"));
  CHECK(keeps(R"("keep_best": true)", R"("eval_interval": 10)"));
}
