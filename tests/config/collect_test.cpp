#include <fmt/format.h>

#include "loaded.h"

using namespace hgt;

TEST_CASE("aliases, hyphens and blanks around a key are understood") {
  const LoadResult result =
      loaded(R"({"training": {"max-steps": 5, "seq_len ": 9}, "data-parallel-size": 1})");
  CHECK(result.config.training.train_iters == 5);
  CHECK(result.config.training.seq_length == 9);
  CHECK(contains(problem_text(result, Severity::kNotice),
                 "the key \"seq_len \" is read as \"seq_len\""));
}

TEST_CASE("keys that are comments are skipped at any depth") {
  CHECK(errors(R"({"_comment": 1, "$schema": "x", "//": 2, "training": {"_why": 3}})") == "");
  CHECK(errors(R"({"comment": 1, "comments": [2], "#lr": 3, "fp16": {"comment": 4, "# x": 5}})") ==
        "");
}

TEST_CASE("null means absent, for keys and sections") {
  const LoadResult result = loaded(
      R"({"gradient_clipping": null, "zero_optimization": null, "training": {"seed": null}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(result.config.training.seed == 1234);
}

TEST_CASE("a key given twice by two names is refused, unless both say the same") {
  CHECK(
      contains(errors("{\"training\": {\"steps\": 5,\n \"train_iters\": 6}}"),
               "training.train_iters is given twice | the other one is /training/steps on line 1"));
  CHECK(errors(R"({"training": {"steps": 5, "train_iters": 5}})") == "");
  CHECK(contains(errors(R"({"tensor_parallel": {"autotp_size": 2}, "parallelism": {"tp": 4}})"),
                 "parallelism.tensor_parallel_size is given twice"));
}

TEST_CASE("an unknown key is an error if it is similar to a known one, else part of one notice") {
  CHECK(contains(errors(R"({"gradient_accumulation_step": 1})"),
                 "did you mean gradient_accumulation_steps?"));
  CHECK(contains(errors(R"({"zero_optimization.stage": 2})"),
                 R"(did you mean {"zero_optimization": {"stage": ...}}?)"));
  const LoadResult result = loaded(R"({"my_notes": 1, "colour": "red"})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(contains(problem_text(result, Severity::kNotice),
                 "not known and are ignored: my_notes (line 1), colour (line 1)"));
  CHECK(contains(errors(R"({"training": {"colour": 1}})"), "its keys are: train_iters"));
}

TEST_CASE("the error for a parameter of another type names that type") {
  CHECK(contains(errors(R"({"scheduler": {"type": "WarmupLR", "params": {"cycle_min_lr": 1}}})"),
                 "scheduler.params of type WarmupLR has no cycle_min_lr | it belongs to OneCycle"));
}

TEST_CASE("sections must be objects or shorthands of old files") {
  CHECK(contains(errors(R"({"bf16": true})"),
                 R"(bf16 must be an object, not true | write "bf16": {"enabled": ...})"));
  CHECK(contains(errors(R"([1])"), "the file must hold an object"));
  CHECK(value(loaded(R"({"zero_optimization": true})"), "zero_optimization.stage") == "1");
  CHECK(value(loaded(R"({"zero_optimization": false})"), "zero_optimization.stage") == "0");
  CHECK(loaded(R"({"data": "some/file"})").config.data.train.at(0).path == "some/file");
  CHECK(loaded(R"({"tokenizer": "some/file"})").config.tokenizer.path == "some/file");
}

TEST_CASE("duplicate keys are refused with both lines") {
  CHECK(contains(errors("{\"train_batch_size\": 24,\n\"train_batch_size\": 24,}"),
                 "the key is given twice, on lines 1 and 2"));
}

TEST_CASE("an override replaces any value of the file") {
  const LoadResult result =
      loaded(R"({"data": "a", "zero_optimization": true, "training": {"steps": 5}})", 1,
             {"data.valid_fraction", "0.1", "zero_optimization.stage", "0", "training.train_iters",
              "6", "tokenizer.path", "12"});
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(result.config.data.train.at(0).path == "a");
  CHECK(result.config.training.train_iters == 6);
  CHECK(result.config.tokenizer.path == "12");
  CHECK(contains(problem_text(loaded("{}", 1, {"unheard", "1"}), Severity::kError),
                 "there is no key unheard"));
}

TEST_CASE("a short unknown key gets no suggestion") {
  CHECK(errors(R"({"moe": {"enabled": true}, "a": 1})") == "");
  CHECK(contains(errors(R"({"dat": {}})"), "did you mean data?"));
}

TEST_CASE("every key of the file is reported, known or not") {
  const LoadResult result = loaded(
      R"({"my_notes": 1, "curriculum_learning": {"enabled": false, "min_difficulty": 8}, "training": {"colour": 1}})");
  const auto report = [&](const std::string& path) {
    for (const KeyReport& key : result.keys)
      if (key.path == path) return std::pair(key.key_class, key.origin.detail);
    return std::pair(KeyClass::kUsed, std::string("nowhere"));
  };
  CHECK(report("my_notes") == std::pair(KeyClass::kIgnored, std::string("f.json:1")));
  CHECK(report("curriculum_learning.min_difficulty").first == KeyClass::kIgnored);
  CHECK(report("training.colour").first == KeyClass::kError);
}

TEST_CASE("the command line accepts no comments and no unknown keys") {
  for (const char* path : {"whatever.x", "a.b.c", "training.", ".x", "training._why", "my_notes"}) {
    const LoadResult result = loaded("{}", 1, {path, "1"});
    INFO(path);
    REQUIRE(result.has(Severity::kError));
    CHECK(result.problems.front().where().find("on the command line") != std::string::npos);
  }
  CHECK_THROWS_WITH(loaded("{}", 1, {"data.train_data_path", "\xff"}),
                    "--data.train_data_path \xff is not UTF-8");
}

TEST_CASE("null on the command line removes keys and sections of the file") {
  const std::string text = R"({"optimizer": {"type": "AdamW", "params": {"betas": [0.5, 0.6]}},
      "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.5}}})";
  const auto with = [&](std::vector<std::string> flags) {
    const LoadResult result = loaded(text, 1, std::move(flags));
    CHECK(problem_text(result, Severity::kError) == "");
    return result.config;
  };
  CHECK(with({"optimizer.params.betas", "null"}).optimizer.beta1 == 0.9);
  CHECK(with({"optimizer.type", "SGD", "optimizer.params.betas", "null"}).optimizer.type == "SGD");
  for (const char* key : {"scheduler", "scheduler.type"}) {
    const SchedulerConfig none = with({key, "null"}).scheduler;
    CHECK(none.type == "");
    CHECK(none.numbers.empty());
  }
}

TEST_CASE("a hint says how to replace the file's parameters if the command line changes the type") {
  const std::string text =
      R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.1, "betas": [0.5, 0.6]}}})";
  const LoadResult result = loaded(text, 1, {"optimizer.type", "SGD"});
  CHECK(contains(problem_text(result, Severity::kError),
                 R"(to replace the file's: --optimizer.params '{"lr":0.1}')"));
  const LoadResult replaced =
      loaded(text, 1, {"optimizer.type", "SGD", "optimizer.params", R"({"lr": 0.1})"});
  CHECK(problem_text(replaced, Severity::kError) == "");
  CHECK(replaced.config.optimizer.lr == 0.1);
  for (const KeyReport& key : replaced.keys)
    if (key.path == "optimizer.params.lr") CHECK(key.origin.kind == OriginKind::kFlag);
}

TEST_CASE("the hint for an unknown key names the key with its words, or the nearest ones") {
  CHECK(contains(errors(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_steps": 1}}})"),
                 "did you mean scheduler.params.warmup_num_steps?"));
  CHECK(contains(errors(R"({"model": {"model_type": "gpt2", "model_name_or_path": "gpt2"}})"),
                 "did you mean model.init?"));
  CHECK(contains(errors(R"({"model": {"model_type": "gpt2", "lora_alpha": 8}})"),
                 "hgtrain trains every parameter in full"));
  for (const auto& [given, meant] :
       std::vector<std::pair<std::string, std::string>>{{"layers", "num_hidden_layers"},
                                                        {"n_layers", "num_hidden_layers"},
                                                        {"heads", "num_attention_heads"},
                                                        {"num_heads", "num_attention_heads"},
                                                        {"hidden", "hidden_size"},
                                                        {"d_model", "hidden_size"},
                                                        {"dim", "hidden_size"},
                                                        {"vocab", "vocab_size"},
                                                        {"block_size", "max_position_embeddings"}})
    CHECK(contains(errors(R"({"model": {"model_type": "gpt2", ")" + given + R"(": 4}})"),
                   "model has no key " + given + " | did you mean model." + meant + "?"));
  CHECK(loaded(R"({"model": {"model_type": "gpt2", "num_layers": 4}})")
            .config.model.num_hidden_layers == 4);
  CHECK(errors(R"({"layers": 4, "vocab": 9})") == "");  // DeepSpeed takes any key there
  const std::string hint = errors(R"({"model": {"model_type": "gpt2", "foo_bar": 1}})");
  CHECK(contains(hint, "model has no key foo_bar | the nearest are "));
  CHECK(contains(hint, "`hgtrain config schema --text` lists all"));
  CHECK(hint.size() < 200);
}

TEST_CASE(
    "options of other programs that would change the training are refused with the key to use") {
  const std::pair<const char*, const char*> keys[] = {
      {"learning_rate", "there is no key learning_rate | did you mean optimizer.params.lr?"},
      {"Learning_Rate", "there is no key Learning_Rate | did you mean optimizer.params.lr?"},
      {"lr", "did you mean optimizer.params.lr?"},
      {"weight-decay", "did you mean optimizer.params.weight_decay?"},
      {"max_grad_norm", "did you mean gradient_clipping?"},
      {"max_steps", "did you mean training.train_iters?"},
      {"num_train_epochs", "did you mean training.num_epochs?"},
      {"seed", "did you mean training.seed?"},
      {"warmup_steps", "did you mean scheduler.params.warmup_num_steps?"},
      {"warmup_num_steps", "did you mean scheduler.params.warmup_num_steps?"},
      {"gradient_checkpointing", "did you mean activation_checkpointing.mode?"},
      {"batch_size",
       "the batch of a step is train_batch_size, that of a worker train_micro_batch_size_per_gpu"},
      {"lora", "hgtrain trains every parameter in full"},
      {"adapter", "hgtrain trains every parameter in full"},
      {"peft", "hgtrain trains every parameter in full"},
      {"ema", "did you mean training.ema_decay?"},
      {"tokenizer_name", "did you mean tokenizer.path?"},
      {"trainer", "its keys belong to the section training"},
      {"packing", "hgtrain always packs documents into samples"},
      {"fsdp", "set zero_optimization.stage to 3"}};
  for (const auto& [key, says] : keys)
    CHECK(contains(errors("{\"" + std::string(key) + "\": 1}"), says));
  CHECK(
      errors(
          R"({"lora": {"enabled": false, "r": 8}, "peft": {}, "gradient_checkpointing": false})") ==
      "");
}

TEST_CASE("a split that another program's key asks for is not dropped: the key to use is named") {
  const std::vector<std::pair<const char*, const char*>> keys = {
      {"tensor_parallel_size", "did you mean parallelism.tensor_parallel_size?"},
      {"tensor_model_parallel_size", "did you mean parallelism.tensor_parallel_size?"},
      {"tensor_parallel_degree", "did you mean parallelism.tensor_parallel_size?"},
      {"tp", "did you mean parallelism.tensor_parallel_size?"},
      {"autotp_size", "did you mean parallelism.tensor_parallel_size?"},
      {"mp_size", "did you mean parallelism.tensor_parallel_size?"},
      {"pipeline_parallel_size", "did you mean parallelism.pipeline_parallel_size?"},
      {"pipeline_model_parallel_size", "did you mean parallelism.pipeline_parallel_size?"},
      {"pp", "did you mean parallelism.pipeline_parallel_size?"},
      {"virtual_pipeline_model_parallel_size", "parallelism.virtual_pipeline_stages"},
      {"pipeline_parallel_schedule", "parallelism.pipeline_schedule"},
      {"context_parallel_size", "did you mean parallelism.context_parallel_size?"},
      {"context_parallel_degree", "did you mean parallelism.context_parallel_size?"},
      {"cp", "did you mean parallelism.context_parallel_size?"},
      {"sequence_parallel", "parallelism.sequence_parallel = true"},
      {"model_parallel", "did you mean parallelism?"},
      {"expert_parallel_size", "did you mean parallelism.expert_parallel_size?"},
      {"dp", "did you mean parallelism.data_parallel_size?"},
      {"data_parallel_shard_degree", "zero_optimization.stage"}};
  for (const auto& [key, says] : keys)
    for (const char* value : {"2", "true"})
      CHECK(contains(errors(fmt::format("{{\"{}\": {}}}", key, value)), says));
  CHECK(contains(errors(R"({"model_parallel": {"tensor_parallel_size": 2}})"),
                 "did you mean parallelism?"));
  for (
      const char* nothing :
      {R"({"model_parallel": {}, "tensor_parallel_size": 1, "pipeline_model_parallel_size": 1, "cp": 1})",
       R"({"tp": null, "sequence_parallel": false, "context_parallel_size": 0})"})
    CHECK(errors(nothing) == "");
}

TEST_CASE("the section of parallelism names its key for another program's") {
  const auto hint = [](const char* key) {
    return errors(fmt::format("{{\"parallelism\": {{\"{}\": 2}}}}", key));
  };
  CHECK(contains(hint("tp_size"), "did you mean parallelism.tensor_parallel_size?"));
  CHECK(contains(hint("pp_size"), "did you mean parallelism.pipeline_parallel_size?"));
  CHECK(contains(hint("data_parallel_shard_degree"), "zero_optimization.stage"));
  CHECK(contains(
      problem_text(loaded(R"({"parallelism": {"expert_parallel_size": 2}})"), Severity::kNotBuilt),
      "not built yet | leave it out"));
  // If the value means something else there, the hint says what to set.
  CHECK(contains(hint("num_layers_per_virtual_pipeline_stage"),
                 "set parallelism.virtual_pipeline_stages, how many parts each stage has"));
  CHECK(contains(hint("data_parallel_replicate_degree"), "leave it out"));
  CHECK(contains(hint("decoder_first_pipeline_num_layers"), "pipeline_layer_split, for example ["));
  CHECK(contains(hint("disable_loss_parallel"), "always share the head and its loss"));
  CHECK(contains(hint("use_distributed_optimizer"), "zero_optimization.stage 1 splits"));
  for (const char* key : {"tensor_parallel_degree", "tp", "tensor_model_parallel_size"})
    CHECK(loaded(fmt::format("{{\"parallelism\": {{\"{}\": 2}}}}", key), 2)
              .config.parallelism.tensor_parallel_size == 2);
}

TEST_CASE("unknown keys of an open section are ignored, or refused if similar to a known one") {
  for (const char* section :
       {"flops_profiler", "pipeline", "aio", "elasticity", "data_types", "torch_autocast",
        "compile", "amp", "curriculum_learning", "hybrid_engine", "expert_parallel", "autotuning",
        "data_efficiency", "compression_training", "nebula", "progressive_layer_drop"}) {
    const LoadResult result =
        loaded("{\"" + std::string(section) + R"(": {"a_stranger": 1, "zz": {"enabled": true}}})");
    CHECK(problem_text(result, Severity::kError) == "");
    CHECK(contains(problem_text(result, Severity::kNotice),
                   std::string("not known and are ignored: ") + section + ".a_stranger (line 1), " +
                       section + ".zz (line 1)"));
  }
  CHECK(contains(errors(R"({"flops_profiler": {"enable": true}})"), "did you mean enabled?"));
  CHECK(contains(errors(R"({"compression_training": {"weight_quantisation": {}}})"),
                 "did you mean weight_quantization?"));
}

TEST_CASE("for a key in the wrong section, or in one at all, the hint says where it belongs") {
  CHECK(contains(errors(R"({"optimizer": {"type": "AdamW", "eps": 1e-8}})"),
                 "optimizer has no key eps | did you mean optimizer.params.eps?"));
  CHECK(contains(errors(R"({"scheduler": {"type": "WarmupLR", "warmup_num_steps": 10}})"),
                 "did you mean scheduler.params.warmup_num_steps?"));
  CHECK(contains(errors(R"({"optimizer": {"params": {"learning_rate": 1e-4}}})"),
                 "did you mean optimizer.params.lr?"));
  CHECK(contains(errors(R"({"training": {"save_steps": 10}})"),
                 "training has no key save_steps | did you mean checkpoint.save_interval?"));
  CHECK(contains(errors(R"({"training": {"weight_decay": 0.1}})"),
                 "did you mean optimizer.params.weight_decay?"));
  CHECK(contains(errors(R"({"zero_optimization": {"train_batch_size": 8}})"),
                 "train_batch_size belongs outside any section"));
}

TEST_CASE("a type that is not known hides no errors of its section") {
  const std::string text = errors(
      R"({"optimizer": {"type": "FusedAdam", "params": {"lr": 1, "momentum": 0, "foo": 1}}})");
  CHECK(contains(text, "optimizer.type = \"FusedAdam\" is not known | did you mean \"Adam\"?"));
  CHECK(contains(text, "optimizer.params has no key foo | its keys are: lr, betas, eps, weight"));
  CHECK_FALSE(contains(text, "momentum\n"));
  CHECK(
      contains(errors(R"({"optimizer": {"type": "PagedAdamW8bit"}})"), "did you mean \"AdamW\"?"));
}

TEST_CASE("a long unknown key is shortened, and only the first hundred get a hint") {
  const std::string long_key(5000, 'k');
  const std::string notice = problem_text(loaded("{\"" + long_key + "\": 1}"), Severity::kNotice);
  CHECK(contains(notice, std::string(100, 'k') + "..."));
  CHECK_FALSE(contains(notice, std::string(101, 'k')));
  CHECK(contains(errors(R"({"optimizer": {"x)" + long_key + R"(": 1}})"), "kkk..."));
  std::string many = R"({"model": {"model_type": "gpt2")";
  for (int i = 0; i < 150; ++i) many += ", \"foo_bar_" + std::to_string(i) + "\": 1";
  const std::string all_errors = errors(many + "}}");
  CHECK(contains(all_errors, "model has no key foo_bar_99 | the nearest are "));
  CHECK(
      contains(all_errors, "model has no key foo_bar_149 | `hgtrain config schema --text` lists"));
}
