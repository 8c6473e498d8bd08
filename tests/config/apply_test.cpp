#include "loaded.h"

using namespace hgt;

namespace {

const KeyReport* report(const LoadResult& result, const std::string& path) {
  for (const KeyReport& key : result.keys)
    if (key.path == path) return &key;
  return nullptr;
}

}  // namespace

TEST_CASE("auto: the Trainer's default, or absent with a notice, never a number") {
  const LoadResult result = loaded(R"({
    "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "bias_correction": "auto"}},
    "fp16": {"enabled": "auto", "loss_scale": "auto"}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(result.config.optimizer.lr == 5e-5);
  CHECK(report(result, "optimizer.params.lr")->origin.kind == OriginKind::kAuto);
  CHECK(
      contains(problem_text(result, Severity::kNotice),
               "\"auto\" counts as absent for: fp16.loss_scale, optimizer.params.bias_correction"));
  CHECK(contains(errors(R"({"gradient_clipping": "Auto"})"), "must be a number, not \"Auto\""));
  CHECK(
      contains(errors(R"({"zero_optimization": {"stage": "auto"}})"), "give a number from 0 to 3"));
  CHECK(loaded(R"({"distributed": {"backend": "auto"}})").config.distributed.backend == "auto");
}

TEST_CASE("what is not built is listed only if it is switched on") {
  const LoadResult off =
      loaded(R"({"zero_optimization": {"stage": 0}, "amp": {"enabled": false}})");
  CHECK(problem_text(off, Severity::kNotBuilt) == "");
  const LoadResult on = loaded(
      R"({"zero_optimization": {"stage": 3, "mics_shard_size": 2}, "parallelism": {"sequence_parallel_size": 2}})",
      2);
  CHECK(contains(problem_text(on, Severity::kNotBuilt),
                 "zero_optimization.mics_shard_size = 2 is not built yet"));
  CHECK(contains(problem_text(on, Severity::kNotBuilt),
                 "parallelism.sequence_parallel_size = 2 is not built"));
  CHECK(problem_text(on, Severity::kError) == "");
  CHECK(report(on, "zero_optimization.mics_shard_size")->switched_on);
  CHECK(contains(problem_text(loaded(R"({"sparse_gradients": true})"), Severity::kNotBuilt),
                 "sparse_gradients = true is not built yet | remove it to train without"));
}

TEST_CASE("one notice names all ignored keys, except those that are false") {
  const LoadResult result =
      loaded(R"({"dump_state": true, "memory_breakdown": true, "wall_clock_breakdown": false})");
  CHECK_FALSE(contains(problem_text(result, Severity::kNotice), "wall_clock_breakdown"));
  CHECK(
      contains(problem_text(result, Severity::kNotice),
               "hgtrain does not need these keys and ignores them: dump_state, memory_breakdown"));
}

TEST_CASE("origins: file and line, flag, rule, default") {
  const LoadResult result =
      loaded("{\n\"gradient_clipping\": 0.5,\n\"train_batch_size\": 4}", 1, {"training.seed", "5"});
  CHECK(report(result, "gradient_clipping")->origin.detail == "f.json:2");
  CHECK(report(result, "training.seed")->origin.detail == "--training.seed");
  CHECK(report(result, "gradient_accumulation_steps")->origin.kind == OriginKind::kDerived);
  CHECK(report(result, "training.eval_iters")->origin.kind == OriginKind::kDefault);
}

TEST_CASE("a model's keys without effect are ignored with a notice if the user gave them") {
  const auto notices = [](const std::string& keys) {
    return problem_text(loaded("{\"model\": {\"model_type\": \"gpt2\", " + keys + "}}"),
                        Severity::kNotice);
  };
  CHECK(contains(notices(R"("gradient_checkpointing": true)"),
                 "ignores them: model.gradient_checkpointing | to recompute activations, "
                 "set activation_checkpointing.mode to full or selective"));
  CHECK_FALSE(contains(notices(R"("gradient_checkpointing": false)"), "gradient_checkpointing"));
}
