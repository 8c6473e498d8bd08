#include <fmt/format.h>

#include "hgtrain/base/file.h"

#include "loaded.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("keys that contradict each other are refused") {
  CHECK(contains(errors(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"),
                 "fp16 and bf16 are both enabled"));
  CHECK(contains(errors(R"({"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}})"),
                 "cannot be combined with ZeRO stage 3"));
  CHECK(contains(errors(R"({"prescale_gradients": true, "zero_optimization": {"stage": 2}})"),
                 "prescale_gradients cannot be combined with"));
  CHECK(errors(R"({"prescale_gradients": true, "gradient_predivide_factor": 2})") == "");
  CHECK(contains(errors(R"({"gradient_predivide_factor": 2, "zero_optimization": {"stage": 2}})"),
                 "gradient_predivide_factor cannot be combined with"));
  CHECK(contains(errors(R"({"zero_optimization": {"stage": 2}, "parallelism": {"pp": 2}})"),
                 "cannot be combined with pipeline parallelism"));
  CHECK(contains(errors(R"({"data": {"valid_data_path": "v", "valid_fraction": 0.1}})"),
                 "are both given"));
}

TEST_CASE("a folder for the copy of a run is a whole path") {
  CHECK(contains(errors(R"({"checkpoint": {"copy_to": "~/copy"}})"),
                 "would be a folder called ~ here"));
  for (const char* other : {"host:/copy", "s3://bucket/copy"})
    CHECK(contains(errors(fmt::format(R"({{"checkpoint": {{"copy_to": "{}"}}}})", other)),
                   "names another machine"));
  for (const char* here : {"copy~", "./host:/copy"})
    CHECK(errors(fmt::format(R"({{"checkpoint": {{"copy_to": "{}"}}}})", here)) == "");
}

TEST_CASE("a key that cannot have an effect is refused or gives a notice") {
  CHECK(contains(errors(R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}})"),
                 "needs bf16.bf16_master_weights_and_grads"));
  CHECK(contains(problem_text(loaded(R"({"bf16": {"bf16_master_weights_and_grads": true}})"),
                              Severity::kNotice),
                 "has an effect only in bf16 training"));
  const std::string narrow = R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true})";
  CHECK(errors("{" + narrow + "}") == "");
  CHECK(contains(problem_text(loaded("{" + narrow + R"(, "optimizer": {"type": "Lamb"}})"),
                              Severity::kNotBuilt),
                 "Lamb without fp32 masters is not built"));
  CHECK(
      contains(errors(R"({"fp16": {"enabled": true, "loss_scale": 1e39}})"), "too large for fp32"));
  CHECK(errors(R"({"fp16": {"enabled": true, "loss_scale": 1e30}})") == "");
  CHECK(contains(errors(R"({"fp16": {"enabled": "auto", "loss_scale_window": 0}})"),
                 "must be at least 1"));
  CHECK(errors(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})") == "");
  CHECK(contains(errors(R"({"bf16": {"enabled": "yes"}})"), "must be true, false or \"auto\""));
  CHECK_FALSE(contains(
      problem_text(
          loaded(R"({"bf16": {"enabled": "auto", "bf16_master_weights_and_grads": true}})"),
          Severity::kNotice),
      "has an effect"));
  CHECK(contains(
      problem_text(loaded(R"({"activation_checkpointing": {"num_layers": 1}})"), Severity::kNotice),
      "has no effect with mode none"));
  CHECK(contains(errors(R"({"activation_checkpointing": {"mode": "full", "num_layers": 9},
                            "model": {"model_type": "gpt2", "n_layer": 2}})"),
                 "num_layers = 9 is more than the model's 2 layers"));
}

TEST_CASE("optimizer.params.max_grad_norm must equal gradient_clipping") {
  const std::string optimizer =
      R"("optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}})";
  CHECK(errors("{\"gradient_clipping\": 1.0, " + optimizer + "}") == "");
  CHECK(contains(errors("{\"gradient_clipping\": 0.5, " + optimizer + "}"),
                 "max_grad_norm = 1.0 is not gradient_clipping = 0.5 | set gradient_clipping"));
}

TEST_CASE("a learning rate that the schedule never reaches gives a notice") {
  const LoadResult result = loaded(R"({"optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
      "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 20}}})");
  CHECK(contains(problem_text(result, Severity::kNotice),
                 "the rate rises to scheduler.params.warmup_max_lr = 0.001, not to "
                 "optimizer.params.lr = 0.0003 | to use the optimizer's: "
                 "--scheduler.params.warmup_max_lr 0.0003"));
}

TEST_CASE("a schedule for a run of another length gives a notice") {
  const auto notices = [](int steps) {
    return problem_text(loaded(R"({"scheduler": {"type": "WarmupCosineLR",
                           "params": {"total_num_steps": 20}}, "training": {"train_iters": )" +
                               std::to_string(steps) + "}}"),
                        Severity::kNotice);
  };
  CHECK(contains(notices(10),
                 "the run has 10 steps: the learning rate will not have decayed fully when the run "
                 "ends"));
  CHECK(
      contains(notices(30), "the run has 30 steps: after that, the learning rate stays constant"));
  CHECK_FALSE(contains(notices(20), "total_num_steps"));
}

TEST_CASE("a warmup that is longer than the run gives a notice") {
  const auto notices = [](const std::string& schedule, const std::string& training) {
    return problem_text(loaded(R"({"scheduler": )" + schedule +
                               R"(, "training": {"train_iters": 10)" + training + "}}"),
                        Severity::kNotice);
  };
  const auto scheduler = [](int warmup) {
    return R"({"type": "WarmupLR", "params": {"warmup_num_steps": )" + std::to_string(warmup) +
           "}}";
  };
  CHECK(contains(notices(scheduler(11), ""),
                 "scheduler.params.warmup_num_steps = 11, but the run has 10 steps: the learning "
                 "rate will not have risen fully when the run ends | for a shorter warmup: "
                 "--scheduler.params.warmup_num_steps N"));
  CHECK(contains(notices(R"({"type": "WarmupCosineLR"})", ""), "warmup_num_steps = 1000, but"));
  CHECK_FALSE(contains(notices(scheduler(10), ""), "risen"));
  CHECK_FALSE(contains(notices("null", ""), "risen"));
  const auto own = [&](int warmup) {
    return notices("null", R"(, "lr_schedule": {"type": "cosine", "warmup_iters": )" +
                               std::to_string(warmup) + "}");
  };
  CHECK(contains(own(11), "training.lr_schedule.warmup_iters = 11, but the run has 10 steps"));
  CHECK_FALSE(contains(own(9), "risen"));
}

TEST_CASE("a sequence longer than a rotary model's longest gives a notice") {
  const auto notices = [](int length, const std::string& keys = "") {
    return problem_text(
        loaded(R"({"model": {"model_type": "llama", "max_position_embeddings": 64)" + keys +
               R"(}, "training": {"seq_length": )" + std::to_string(length) + "}}"),
        Severity::kNotice);
  };
  CHECK(contains(notices(65),
                 "training.seq_length = 65 is longer than model.max_position_embeddings = 64, at "
                 "which `hgtrain generate` ends texts | set model.max_position_embeddings = 65"));
  CHECK_FALSE(contains(notices(64), "longer"));
  CHECK_FALSE(contains(notices(65, R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})"),
                       "longer"));
}

TEST_CASE("a sequence longer than GPT-2's positions is refused") {
  CHECK(contains(errors(R"({"model": {"model_type": "gpt2", "n_positions": 64},
                            "training": {"seq_length": 65}})"),
                 "training.seq_length = 65 is longer than model.n_positions = 64 | "
                 "raise model.n_positions, or shorten training.seq_length"));
  const TemporaryFolder folder;
  write_new_file(folder / "config.json", R"({"model_type": "gpt2", "n_positions": 64})");
  CHECK(contains(
      errors(R"({"model": {"init": ")" + folder.path() + R"("}, "training": {"seq_length": 65}})"),
      "n_positions = 64 | shorten training.seq_length\n"));
}

TEST_CASE("betas must be less than 1") {
  CHECK(contains(errors(R"({"optimizer": {"type": "Adam", "params": {"betas": [0.9, 1]}}})"),
                 "must be less than 1"));
}

TEST_CASE("parameters of an optimizer that contradict each other are refused") {
  const auto of = [](const std::string& type, const std::string& params) {
    return errors(R"({"optimizer": {"type": ")" + type + R"(", "params": {)" + params + "}}}");
  };
  CHECK(contains(of("SGD", R"("nesterov": true)"), "nesterov needs a momentum"));
  CHECK(contains(of("SGD", R"("nesterov": true, "momentum": 0.9, "dampening": 0.1)"),
                 "and no dampening"));
  CHECK(of("SGD", R"("nesterov": true, "momentum": 0.9)") == "");
  CHECK(contains(of("Lamb", R"("min_coeff": 11)"), "min_coeff = 11 is more than max_coeff = 10"));
}

TEST_CASE("cycle_momentum without effect gives a notice") {
  const auto notices = [](const std::string& type) {
    return problem_text(
        loaded(R"({"optimizer": {"type": ")" + type + R"("}, "scheduler": {"type": "OneCycle",
                          "params": {"cycle_min_lr": 0, "cycle_max_lr": 1}}})"),
        Severity::kNotice);
  };
  CHECK(contains(notices("SGD"), "its momentum is beta1, which SGD does not have"));
  CHECK_FALSE(contains(notices("Lion"), "beta1"));
}

TEST_CASE("training.lr_schedule excludes a scheduler, and its numbers must fit the run") {
  const auto of = [](const std::string& keys, const std::string& sections = "") {
    return loaded(
        R"({"train_batch_size": 1, "model": {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1},
                      "training": {"train_iters": 10, "lr_schedule": {)" +
        keys + "}}" + sections + "}");
  };
  const auto error = [&](const std::string& keys, const std::string& sections = "") {
    return problem_text(of(keys, sections), Severity::kError);
  };
  const Config c = of(R"("type": "WSD", "warmup_steps": 2, "decay_style": "cosine")").config;
  CHECK(c.training.lr_schedule.type == "wsd");
  CHECK(c.training.lr_schedule.warmup_iters == 2);
  CHECK(config_from_resolved(to_json(c)).training.lr_schedule.decay_style == "cosine");
  CHECK(contains(error(R"("type": "cosine")", R"(, "scheduler": {"type": "WarmupLR"})"),
                 "scheduler and training.lr_schedule are both given | keep one of them"));
  CHECK(contains(error(R"("warmup_iters": 2)"), "training.lr_schedule has no type"));
  CHECK(
      contains(error(R"("type": "constant", "min_lr": 0)"),
               "training.lr_schedule of type constant has no min_lr | it belongs to cosine, wsd"));
  CHECK(contains(error(R"("type": "cosine", "decay_style": "linear")"), "it belongs to wsd"));
  CHECK(contains(error(R"("type": "cosine", "min_lr": 1)"), "is more than optimizer.params.lr"));
  CHECK(contains(error(R"("type": "cosin")"), "did you mean \"cosine\"?"));
  CHECK(contains(
      problem_text(of(R"("type": "wsd", "warmup_iters": 6, "decay_iters": 5)"), Severity::kNotice),
      "but training.train_iters = 10: the learning rate will not reach the schedule's end"));
  Config scheduled = c;
  scheduled.scheduler.type = "WarmupLR";
  CHECK(config_from_resolved(to_json(scheduled)).scheduler.type == "WarmupLR");
}

TEST_CASE("defaults that differ from other programs' give a notice, unless the keys are given") {
  const std::string bare = problem_text(loaded("{}"), Severity::kNotice);
  CHECK(contains(bare,
                 "there is no optimizer section: AdamW with lr 0.001 is used, but HF's Trainer "
                 "would use 5e-05 | set optimizer.params.lr"));
  CHECK(contains(bare, "gradient_clipping is not given: 1.0 is used, as in DeepSpeed since 0.19"));
  CHECK(problem_text(loaded(R"({"optimizer": ["AdamW"], "gradient_clipping": 0})"),
                     Severity::kNotice) == "");
  CHECK(problem_text(loaded(R"({"optimizer": {"type": "AdamW"}, "gradient_clipping": 0})"),
                     Severity::kNotice) == "");
}

TEST_CASE("prescale_gradients is refused only with ZeRO's reduce_scatter") {
  for (const char* key : {"\"prescale_gradients\": true", "\"gradient_predivide_factor\": 2"}) {
    const auto at_stage = [&](const char* stage) {
      return errors(std::string("{") + key + R"(, "zero_optimization": {"stage": )" + stage + "}}");
    };
    CHECK(at_stage("1") == "");
    CHECK(contains(at_stage("2"), "cannot be combined with ZeRO's reduce_scatter"));
  }
}

TEST_CASE("ema_decay must be less than 1") {
  CHECK(contains(errors(R"({"training": {"ema_decay": 1}})"), "must be less than 1"));
  CHECK(errors(R"({"training": {"ema_decay": 0.999}})") == "");
}

TEST_CASE("a missing key is reported once, and not if it was given and refused") {
  const auto missing = [](const std::string& text) {
    return problem_text(loaded(text), Severity::kMissing);
  };
  CHECK(contains(missing(R"({"train_batch_size": 8})"),
                 "training.train_iters and training.seq_length are missing"));
  CHECK(contains(missing(R"({"training": {"train_iters": 5}})"), "training.seq_length is missing"));
  CHECK_FALSE(contains(missing(R"({"train_batch_size": -8})"), "batch size"));
  CHECK_FALSE(
      contains(missing(R"({"training": {"train_iters": -5, "seq_length": 8}})"), "training."));
  CHECK_FALSE(contains(missing(R"({"data": {"train_data_path": [3]}})"), "data."));
}

TEST_CASE("evaluations need validation data") {
  const auto missing = [](const std::string& data, const std::string& interval) {
    return problem_text(loaded(R"({"data": {"train_data_path": "a")" + data +
                               R"(}, "training": {"eval_interval": )" + interval + "}}"),
                        Severity::kMissing);
  };
  CHECK(contains(missing("", "25"),
                 "there is no validation data, which training.eval_interval = 25 needs | set "
                 "data.valid_data_path or data.valid_fraction, or never evaluate: "
                 "--training.eval_interval 0"));
  const auto tells = [&](const std::string& data, const std::string& interval) {
    return contains(missing(data, interval), "validation");
  };
  CHECK_FALSE(tells("", "0"));
  CHECK_FALSE(tells(R"(, "valid_fraction": 0.1)", "25"));
  CHECK_FALSE(tells(R"(, "valid_fraction": 2)", "25"));
  CHECK_FALSE(tells(R"(, "valid_data_path": "b")", "25"));
}

TEST_CASE("the best checkpoint needs evaluations") {
  CHECK(contains(errors(R"({"checkpoint": {"keep_best": true}})"), "keep_best needs evaluations"));
  CHECK(errors(R"({"checkpoint": {"keep_best": true}, "training": {"eval_interval": 5}})") == "");
}
