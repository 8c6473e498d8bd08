#include "hgtrain/config/load.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

const char* const kComplete = R"({
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 8,
  "gradient_clipping": 0.5,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": 3e-4, "warmup_num_steps": 10}},
  "model": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128},
  "data": {"train_data_path": "data/a", "valid_fraction": 0.1},
  "training": {"train_iters": 100}
})";

LoadResult load(const std::string& text, std::vector<std::string> overrides = {},
                std::optional<std::int64_t> world = 1) {
  return load_config_text(text, "f.json", {std::move(overrides), world});
}

std::vector<Problem> problems(const LoadResult& result, Severity severity) {
  std::vector<Problem> out;
  for (const Problem& problem : result.problems)
    if (problem.severity == severity) out.push_back(problem);
  return out;
}

}  // namespace

TEST_CASE("a complete config is resolved") {
  const LoadResult result = load(kComplete, {}, 2);
  result.throw_unless_trainable();
  const Config& c = result.config;
  CHECK(c.batch.gradient_accumulation_steps == 2);
  CHECK(c.optimizer.lr == 3e-4);
  CHECK(c.optimizer.beta2 == 0.95);
  CHECK(c.scheduler.numbers.at("total_num_steps") == 100);
  CHECK(c.scheduler.numbers.at("warmup_min_lr") == 0);
  CHECK(c.model.intermediate_size == 256);
  CHECK(c.model.head_dim == 16);
  CHECK(c.training.seq_length == 128);
  REQUIRE(c.data.train.size() == 1);
  CHECK(c.data.train[0].path == "data/a");
}

TEST_CASE("the resolved config gives the same Config back") {
  const nlohmann::ordered_json json = to_json(load(kComplete, {}, 2).config);
  CHECK(to_json(config_from_resolved(json)) == json);
  CHECK_FALSE(json.contains("batch"));
  CHECK(json["gradient_accumulation_steps"] == 2);
  CHECK_THROWS_AS(config_from_resolved({{"trainin", {{"seed", 1}}}}), Error);
}

TEST_CASE("overrides replace keys of the file in any spelling") {
  const Config c = load(kComplete, {"optimizer.params.lr", "1e-3", "training.max_steps", "7",
                                    "model.n_layer", "3", "data.train_data_path", "123"})
                       .config;
  CHECK(c.optimizer.lr == 1e-3);
  CHECK(c.training.train_iters == 7);
  CHECK(c.model.num_hidden_layers == 3);
  const LoadResult wrong = load(kComplete, {"training.train_itres", "7"});
  REQUIRE(problems(wrong, Severity::kError).size() == 1);
  CHECK(wrong.problems[0].where() == "--training.train_itres on the command line");
  CHECK(wrong.problems[0].hint == "did you mean train_iters?");
}

TEST_CASE("all problems are reported at once, each with its place") {
  const LoadResult result = load(R"({
    "train_batch_size": 31, "train_micro_batch_size_per_gpu": 8,
    "gradient_clipp1ng": 1.0,
    "optimizer": {"type": "Adamm", "params": {"lr": "high"}}, "training": {"seed": "x"},
    "fp16": true, "steps_a_print": 2,
    "zero_optimization": {"stage": 4}
  })",
                                 {}, 2);
  const auto errors = problems(result, Severity::kError);
  CHECK(errors.size() == 7);
  for (const Problem& e : errors) {
    INFO(e.message);
    CHECK(e.file == "f.json");
    CHECK(e.line >= 2);
    CHECK(e.pointer.starts_with("/"));
    CHECK((!e.hint.empty() || e.message.find("must be") != std::string::npos));
  }
  try {
    result.throw_errors();
    FAIL();
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    const std::string text = e.render();
    CHECK(text.find("in f.json:3 at /gradient_clipp1ng\n  hint: did you mean gradient_clipping?") !=
          std::string::npos);
    CHECK(text.find("did you mean \"AdamW\"?") != std::string::npos);
    CHECK(text.find("hgtrain: note: steps_a_print is not known and is ignored (f.json:") !=
          std::string::npos);
  }
}

TEST_CASE("for a file with DeepSpeed's keys only, the errors show examples of what is missing") {
  const LoadResult result = load(R"({"train_batch_size": 64, "zero_optimization": {"stage": 2}})");
  result.throw_errors();
  CHECK(problems(result, Severity::kMissing).size() == 3);
  CHECK(problems(result, Severity::kNotBuilt).empty());
  CHECK(result.config.zero.stage == 2);
  for (const Problem& p : problems(result, Severity::kMissing))
    CHECK(p.hint.starts_with("for example \""));
  CHECK_THROWS_AS(result.throw_unless_trainable(), Error);
}

TEST_CASE("what a config says is the same on two machines, however it is written") {
  const std::map<std::string, std::string> values{{"optimizer.params.lr", "0.001"},
                                                  {"optimizer.params.betas.0", "1"},
                                                  {"zero", "null"},
                                                  {"model.init", "\"no/such/folder\""},
                                                  {"bf16.enabled", "\"auto\""}};
  const char* const text = R"({"optimizer": {"params": {"lr": 1e-3, "betas": [1.0]}}, # comment
                               "zero": null, "model": {"init": "no/such/folder"},
                               "bf16": {"enabled": "auto"}})";
  CHECK(written_values(text, "f.json", {}) == values);
  CHECK(written_values(R"({"zero": null, "optimizer": {"params": {"betas": [1]}},
                           "bf16": {"enabled": true}})",
                       "g.json",
                       {"optimizer.params.lr", "0.001", "model.init", "no/such/folder",
                        "bf16.enabled", "auto"}) == values);
}
