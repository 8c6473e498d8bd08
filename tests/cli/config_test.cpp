#include <map>
#include <regex>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"

#include "program.h"
#include "support/roots.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Json = nlohmann::json;

namespace {

const std::string kConfigs = source_root() + "/configs/";
const std::string kWild = source_root() + "/tests/data/ds_configs/";

bool says(const Outcome& outcome, const std::string& text) {
  INFO(outcome.output);
  return outcome.output.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "every preset is trainable, and what `config show` prints is a config with the same run") {
  const TemporaryFolder folder;
  for (const std::string preset :
       {"quickstart", "tiny-llama", "gpt2-124m", "gpt2-1558m", "llama-8b", "llama-8b-2gpus",
        "llama-8b-8gpus", "llama-70b-64gpus", "ds_config"}) {
    INFO(preset);
    const std::string world = preset.ends_with("64gpus") ? " --world 64" : " --world 8";
    const std::string path = folder.path() + "/" + preset + ".json";
    REQUIRE(run_program("config init " + preset + " " + path).status == 0);
    CHECK(read_file(path, 1 << 20) == read_file(kConfigs + preset + ".json", 1 << 20));
    const Outcome check = run_program("config check " + path + world + " --json");
    CHECK(check.status == 0);
    CHECK(parse_json<Json>(check.output)["trainable"] == true);

    const Outcome shown = run_program("config show " + path + world);
    REQUIRE(shown.status == 0);
    write_new_file(path + ".resolved", shown.output);
    CHECK(run_program("config show " + path + ".resolved" + world).output == shown.output);
  }
  CHECK(says(run_program("config show " + folder.path() + "/gpt2-124m.json"),
             "\"fp16\": {\n    \"enabled\": \"auto\""));
  CHECK(run_program("config init").output.find("gpt2-124m") != std::string::npos);
  CHECK(run_program("config init quickstat").output.find("'quickstart'? one of: ") !=
        std::string::npos);
  const Outcome again = run_program("config init quickstart " + folder.path() + "/quickstart.json");
  CHECK(again.status == 2);
  CHECK(says(again, "exists already"));
}

TEST_CASE("the micro-batches that presets name for kinds of GPUs are the largest that fit them") {
  int named = 0;
  for (const auto& [preset, workers] :
       std::map<std::string, std::string>{{"gpt2-124m", "8"},
                                          {"gpt2-1558m", "8"},
                                          {"llama-8b", "1"},
                                          {"llama-8b-2gpus", "2"},
                                          {"llama-8b-8gpus", "8"},
                                          {"llama-70b-64gpus", "64"}}) {
    const std::string path = kConfigs + preset + ".json", text = read_file(path, 1 << 20);
    for (const std::string gpu : {"rtx4090", "h100", "h200"}) {
      CAPTURE(preset, gpu);
      std::smatch at;
      const bool is_named =
          std::regex_search(text, at, std::regex(gpu + R"( \([0-9]+ GiB\): ([0-9]+))"));
      const std::string batch = is_named ? at[1].str() : "1";
      const Outcome plan =
          run_program("--config " + path + " --dry_run --gpu " + gpu + " --num_gpus " + workers +
                      " --train_micro_batch_size_per_gpu " + batch);
      CHECK((plan.status == 0) == is_named);
      CHECK(says(plan, "micro-batch " + batch + " x accumulation"));
      CHECK(std::regex_search(plan.output, std::regex("divides this batch and fits: " +
                                                      (is_named ? batch : "none") + "[,\n]")));
      named += is_named ? 1 : 0;
    }
  }
  CHECK(named == 12);
}

TEST_CASE("the memory that Llama 8B's preset names is what the plan of one GPU needs") {
  const std::string path = kConfigs + "llama-8b.json", text = read_file(path, 1 << 20);
  std::smatch named;
  REQUIRE(std::regex_search(text, named, std::regex("needs ([0-9.]+) GiB, ([0-9.]+) with fp32")));
  const auto needs = [&](const std::string& gib, const std::string& flags) {
    return says(run_program("--config " + path + " --dry_run --num_gpus 1" + flags),
                "\nmemory      " + gib + " GiB a worker: ");
  };
  CHECK(needs(named[1].str(), ""));
  CHECK(needs(named[2].str(),
              " --bf16.bf16_master_weights_and_grads false --bf16.bf16_optimizer_states false"));
}

TEST_CASE("config check says what hgtrain does with each key") {
  const Outcome outcome = run_program("config check " + kWild + "transformers_zero2.json");
  CHECK(outcome.status == 2);
  CHECK(says(outcome, "transformers_zero2.json: not trainable: 3 missing\n"));
  CHECK(says(outcome, "used\n"));
  CHECK(says(outcome, "zero_optimization.stage"));
  CHECK(says(outcome, "\"model\": {"));
  CHECK(says(outcome, "\"data\": {"));
  CHECK(says(outcome, "\"training\": {"));
  CHECK(says(outcome,
             "transformers_zero2.json:38\n    gradients are always reduced during backward"));
}

TEST_CASE("standard output that cannot be written to is an error, and a closed one harms no file") {
  const TemporaryFolder folder;
  for (const char* command : {"version", "help", "config schema", "completion bash"})
    CHECK(run_program(command + std::string(" >/dev/full")).status == 4);
  const std::string path = folder.path() + "/c.json";
  CHECK(says(run_program("config init quickstart " + path + " >&- && echo written"), "written"));
  CHECK(read_file(path, 1 << 20) == read_file(kConfigs + "quickstart.json", 1 << 20));
}

TEST_CASE("config check reports problems and ends with 2") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  write_new_file(path, "{\n  \"gradient_cliping\": 1,\n  \"train_batch_size\": 0\n}");
  CHECK(run_program("config check " + path).status == 2);
  const Outcome text =
      run_program("config check " + path + " 2>/dev/null | cat; true");  // stdout alone
  CHECK(says(text, "errors\n  there is no key gradient_cliping (" + path +
                       ":2 at /gradient_cliping)\n    did you mean gradient_clipping?"));
  CHECK(says(text, "train_batch_size = 0, but must be at least 1"));
  CHECK(text.output.ends_with(path + ": not trainable: 2 errors, 3 missing\n"));
  CHECK(run_program("config check " + kConfigs + "quickstart.json")
            .output.ends_with("quickstart.json: trainable\n"));
  const Outcome json = run_program("config check " + path + " --json");
  CHECK(json.status == 2);
  CHECK(parse_json<Json>(json.output)["problems"][0]["line"] == 2);
  CHECK(run_program("config check " + folder.path() + "/none.json").status == 2);
}

TEST_CASE("a huge config is answered in a few lines") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json", long_text(100'000, 'q');
  std::string text = "{\"optimizer\": {\"type\": \"" + long_text +
                     "\"}, \"zero_optimization\": \"" + long_text +
                     "\", \"bf16\": {\"enabled\": \"" + long_text + "\"}, \"" + long_text +
                     "\": 1, \"zzz\": \"" + long_text + "\"";
  for (int i = 0; i < 5000; ++i) text += fmt::format(", \"zzzzzzzz{}\": 1", i);
  text += ", \"training\": {\"a\": 1";
  for (int i = 0; i < 5000; ++i) text += fmt::format(", \"zzzzzzzz{}\": 1", i);
  write_new_file(path, text + "}}");
  const Outcome train = run_program("--config " + path + " --dry_run");
  CHECK(train.status == 2);
  CHECK(train.output.size() < 20'000);
  CHECK(says(train, "more of these"));
  const Outcome check = run_program("config check " + path);
  CHECK(check.status == 2);
  CHECK(check.output.size() < 80'000);
  CHECK(says(check, " more; --json lists all"));
  CHECK(says(check, "these keys are not known and are ignored: qqq"));
  CHECK(says(check, " and 4982 more"));
}

TEST_CASE("config show says where each value comes from") {
  const Outcome outcome = run_program(
      "config show " + kConfigs + "tiny-llama.json --origin --world 2 --optimizer.params.lr=1e-5");
  CHECK(outcome.status == 0);
  CHECK(says(outcome, "--optimizer.params.lr"));
  CHECK(says(outcome, "tiny-llama.json:4"));
  CHECK(says(outcome, "from training.train_iters"));
  CHECK(says(outcome, "default"));
}

TEST_CASE("config schema is a schema, or one line per key") {
  const Json schema = parse_json<Json>(run_program("config schema").output);
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["properties"]["training"]["properties"].contains("train_iters"));
  CHECK(says(run_program("config schema --text"), "optimizer.params.lr"));
}

TEST_CASE("groups have an overview, commands a page") {
  CHECK(says(run_program("config --help"), "config check"));
  CHECK(says(run_program("help config"), "config init"));
  CHECK(says(run_program("help config check"), "hgtrain config check FILE"));
  CHECK(run_program("config").status == 2);
  CHECK(says(run_program("config chek x"), "did you mean 'config check'?"));
}

TEST_CASE("completion scripts know commands, flags and config keys") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run_program(std::string("completion ") + shell);
    CHECK(outcome.status == 0);
    CHECK(says(outcome, "training.train_iters"));
    CHECK(says(outcome, "world"));
  }
  CHECK(run_program("completion tcsh").status == 2);
}

TEST_CASE("a config that is shown without --world is one for any number of workers") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  write_new_file(
      path, R"({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}})");
  const Json shown = parse_json<Json>(run_program("config show " + path).output);
  CHECK(shown["train_micro_batch_size_per_gpu"] == "auto");
  CHECK_FALSE(shown.contains("train_batch_size"));
  CHECK(shown["zero_optimization"]["stage"] == 2);
  CHECK(parse_json<Json>(
            run_program("config show " + path + " --world 2").output)["train_batch_size"] == 16);
}
