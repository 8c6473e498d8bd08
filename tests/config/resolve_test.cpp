#include "loaded.h"

using namespace hgt;

TEST_CASE("batch sizes that are auto follow from the others, or are the Trainer's 8 and 1") {
  const auto batch = [](const std::string& keys, std::int64_t world) {
    const BatchConfig b = loaded("{" + keys + "}", world).config.batch;
    return std::vector<std::int64_t>{b.train_batch_size, b.micro_batch_size,
                                     b.gradient_accumulation_steps};
  };
  using Triple = std::vector<std::int64_t>;
  const std::string autos = R"("train_micro_batch_size_per_gpu": "auto")";
  CHECK(batch(autos, 2) == Triple{16, 8, 1});
  CHECK(batch(autos + R"(, "gradient_accumulation_steps": "auto", "train_batch_size": "auto")",
              4) == Triple{32, 8, 1});
  CHECK(batch(autos + R"(, "train_batch_size": 64)", 2) == Triple{64, 8, 4});
  CHECK(batch(autos + R"(, "train_batch_size": 64, "gradient_accumulation_steps": 2)", 2) ==
        Triple{64, 16, 2});
  CHECK(batch(R"("train_batch_size": "auto")", 2) == Triple{16, 8, 1});
  CHECK(batch(R"("train_batch_size": "auto", "gradient_accumulation_steps": 3)", 2) ==
        Triple{48, 8, 3});
}

TEST_CASE("workers that the parallel sizes do not divide are refused with what would fit") {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 1,
      "model": {"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 64, "n_positions": 64},
      "parallelism": {"tp": 2, "pp": 2}})";
  CHECK(loaded(text, 8).config.batch.train_batch_size == 2);
  CHECK(problem_text(loaded(text, 6), Severity::kError) ==
        "6 workers cannot form groups of 4 (2 tensor ranks x 2 pipeline stages) | start a multiple "
        "of 4 "
        "workers, or set parallelism.pipeline_parallel_size = 3 or 1, or set "
        "parallelism.tensor_parallel_size = 1\n");
  // What fits no layout of so many workers fits one of others.
  CHECK(contains(problem_text(loaded(R"({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 8,
      "model": {"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 64, "n_positions": 64},
      "parallelism": {"pp": 7}})",
                                     7),
                              Severity::kError),
                 "with another number of workers, set parallelism.pipeline_parallel_size = 6 or "));
  CHECK(contains(problem_text(loaded(text, 1), Severity::kError),
                 "1 worker cannot form groups of 4"));
  CHECK(contains(errors(R"({"train_batch_size": 4, "data_parallel_size": 2})"),
                 "parallelism.data_parallel_size = 2, but there is 1 worker | start 2 workers"));
  const std::string data =
      R"({"train_micro_batch_size_per_gpu": 1, "parallelism": {"dp": 3, "tp": 2}})";
  CHECK(contains(problem_text(loaded(data, 8), Severity::kError),
                 "parallelism.data_parallel_size = 3, but 8 workers are 4 groups of 2 (2 tensor "
                 "ranks) | "
                 "start 6 workers, or set parallelism.data_parallel_size = 4"));
  CHECK(contains(errors(R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2})"),
                 "a batch of 9 cannot be shared by 1 worker in micro-batches of 2"));
  const std::string sequence =
      R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
          "sequence_parallel_size": 4})";
  CHECK(problem_text(loaded(sequence, 8), Severity::kError) == "");
  CHECK(contains(problem_text(loaded(sequence, 6), Severity::kError),
                 "6 workers cannot form groups of 4 (4 Ulysses ranks)"));
  CHECK(contains(
      problem_text(loaded(R"({"train_batch_size": 9, "parallelism": {"tp": 2, "cp": 2}})", 8),
                   Severity::kError),
      "a batch of 9 cannot be shared by 2 data-parallel workers: 8 workers form 2 groups "
      "of 4 (2 tensor ranks x 2 context ranks)"));
  CHECK(contains(errors(R"({"parallelism": {"tp": 1e18}})"), "must be at most 10000"));
}

TEST_CASE("a layout is checked as a whole: its model, its sequences, its workers and its batch") {
  const std::string text = R"({"train_batch_size": 6, "train_micro_batch_size_per_gpu": 1,
      "model": {"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 64, "n_positions": 64},
      "parallelism": {"tp": 3, "cp": 5, "pipeline_layer_split": [3, 3]}})";
  const std::string known = problem_text(loaded(text, std::nullopt), Severity::kError);
  CHECK(contains(known, "tensor_parallel_size = 3 does not fit the model: it must divide n_head"));
  CHECK(contains(known, "context_parallel_size = 5 does not fit training.seq_length = 64"));
  CHECK(contains(known,
                 "[3, 3] does not split 4 layers into 1 pipeline stage: it has 2 numbers, not 1 | "
                 "set "));
  const std::string with_workers = problem_text(loaded(text, 8), Severity::kError);
  CHECK(contains(with_workers, "stage: it has 2 numbers, not 1 | \n"));
  // 8 or 4 groups could not share a batch of 6.
  CHECK(contains(with_workers,
                 "8 workers cannot form groups of 15 (3 tensor ranks x 5 context ranks) | set "
                 "parallelism.tensor_parallel_size = 2 and parallelism.context_parallel_size = 4 "
                 "and parallelism.pipeline_layer_split = \"balanced\""));
}

TEST_CASE("a layout that does not split the model is not checked against it") {
  const LoadOptions alone{.splits_model = false};
  CHECK_FALSE(load_config_text(R"({"train_batch_size": 6, "parallelism": {"tp": 2, "vpp": 3}})",
                               "f.json", alone)
                  .has(Severity::kError));
}

TEST_CASE("an unknown number of workers is the one that the batch sizes imply") {
  const std::string triple =
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})";
  CHECK(problem_text(loaded(triple, std::nullopt), Severity::kError) == "");
  CHECK(problem_text(loaded(triple, 3), Severity::kError) != "");
  CHECK(loaded(R"({"train_micro_batch_size_per_gpu": 4, "parallelism": {"dp": 4}})", std::nullopt)
            .config.batch.train_batch_size == 16);
}

TEST_CASE("a config without any batch size lacks one") {
  for (const char* text : {"{}", R"({"gradient_accumulation_steps": 2})"})
    CHECK(contains(problem_text(loaded(text), Severity::kMissing), "the batch size is missing"));
}

TEST_CASE("the length of a run is given in steps, samples or epochs, and only once") {
  const std::string batch = R"("train_batch_size": 8)";
  CHECK(
      loaded("{" + batch + R"(, "training": {"train_samples": 81}})").config.training.train_iters ==
      11);
  CHECK(contains(errors("{" + batch + R"(, "training": {"train_samples": 80, "steps": 3}})"),
                 "given more than once"));
  const LoadResult typed =
      loaded("{" + batch + R"(, "training": {"num_epochs": 2}})", 1, {"training.train_iters", "3"});
  CHECK(problem_text(typed, Severity::kError) == "");
  CHECK(typed.config.training.train_iters == 3);
  const LoadResult epochs =
      loaded("{" + batch + R"(, "training": {"steps": 9}})", 1, {"training.num_epochs", "2"});
  CHECK(problem_text(epochs, Severity::kError) == "");
  CHECK(epochs.config.training.train_iters == 0);
  CHECK(epochs.config.training.num_epochs == 2);
  const LoadResult samples =
      loaded("{" + batch + R"(, "training": {"steps": 9}})", 1, {"training.train_samples", "80"});
  CHECK(problem_text(samples, Severity::kError) == "");
  CHECK(samples.config.training.train_iters == 10);
}

TEST_CASE("what follows from a key that is refused is no problem of its own") {
  const auto all = [](const std::string& text, std::vector<std::string> overrides = {}) {
    const LoadResult result = loaded(text, 1, std::move(overrides));
    return problem_text(result, Severity::kError) + problem_text(result, Severity::kMissing);
  };
  const std::string steps = all(R"({"train_batch_size": 8, "training": {"train_iters": -1},
                                    "scheduler": {"type": "WarmupCosineLR"}})");
  CHECK(contains(steps, "train_iters"));
  CHECK_FALSE(contains(steps, "needs scheduler.params.total_num_steps"));
  const std::string batch = all(R"({"train_batchsize": 8})");
  CHECK(contains(batch, "there is no key train_batchsize"));
  CHECK_FALSE(contains(batch, "the batch size is missing"));
  const std::string model = all(
      R"({"train_batch_size": 8, "model": {"init": "/nowhere/gpt2"}, "training": {"steps": 3}})");
  CHECK(contains(model, "/nowhere/gpt2"));
  CHECK_FALSE(contains(model, "training.seq_length is missing"));
}

TEST_CASE("epochs become steps once the data is known, and the schedule follows") {
  Config c = loaded(R"({"train_batch_size": 8, "training": {"num_epochs": 1.5},
                        "scheduler": {"type": "WarmupCosineLR"}})")
                 .config;
  CHECK(to_json(c)["training"]["num_epochs"] == 1.5);
  set_epoch_samples(c, 100);
  CHECK(c.training.train_iters == 18);
  CHECK(c.scheduler.numbers.at("total_num_steps") == 18);
  set_epoch_samples(c, 1000);
  CHECK(c.training.train_iters == 18);
}

TEST_CASE("parameters of a schedule have DeepSpeed's defaults") {
  const auto numbers = [](const std::string& type, const std::string& params) {
    return loaded(
               R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.5}}, "scheduler": {"type": ")" +
               type + R"(", "params": {)" + params + "}}}")
        .config.scheduler.numbers;
  };
  CHECK(numbers("WarmupLR", "").at("warmup_max_lr") == 0.5);
  CHECK(numbers("WarmupLR", "").at("warmup_num_steps") == 1000);
  CHECK(numbers("WarmupDecayLR", R"("total_num_steps": 9)").at("warmup_max_lr") == 0.001);
  CHECK(numbers("WarmupDecayLR", R"("total_num_steps": 9, "warmup_max_lr": "auto")")
            .at("warmup_max_lr") == 0.5);
  CHECK(numbers("WarmupCosineLR", R"("total_num_steps": 9)").at("cos_min_ratio") == 1e-4);
  const auto cycle =
      numbers("OneCycle", R"("cycle_min_lr": 0.1, "cycle_max_lr": 1, "cycle_first_step_size": 7)");
  CHECK(cycle.at("cycle_second_step_size") == 7);
  CHECK(cycle.at("cycle_momentum") == 1);
  CHECK(numbers("LRRangeTest", "").at("lr_range_test_staircase") == 0);
  CHECK(contains(
      problem_text(loaded(R"({"scheduler": {"type": "WarmupCosineLR"}})"), Severity::kMissing),
      "WarmupCosineLR needs scheduler.params.total_num_steps"));
  CHECK(contains(errors(R"({"scheduler": {"type": "OneCycle"}})"),
                 "OneCycle needs scheduler.params.cycle_min_lr"));
}

TEST_CASE("the default sequence length is the model's longest") {
  CHECK(loaded(R"({"model": {"model_type": "gpt2", "n_positions": 77}})")
            .config.training.seq_length == 77);
}

TEST_CASE("train_iters 0 on the command line leaves the length to the epochs") {
  const auto epochs = [](const char* iters) {
    return loaded(R"({"training": {"num_epochs": 0.5}})", 1, {"training.train_iters", iters})
        .config.training.num_epochs;
  };
  CHECK(epochs("0") == 0.5);
  CHECK(epochs("3") == 0);
}

TEST_CASE("a notice says how a pipeline with few micro-batches gets more") {
  const auto notices = [](const std::string& batch) {
    return problem_text(loaded("{" + batch + R"(, "parallelism": {"pp": 2}})", 4),
                        Severity::kNotice);
  };
  CHECK(contains(
      notices(R"("train_batch_size": 32)"),
      "a pipeline of 2 stages has only 1 micro-batch a step, so its stages wait for each "
      "other most of the time | train_micro_batch_size_per_gpu = 2 gives 8 micro-batches"));
  CHECK_FALSE(contains(notices(R"("train_batch_size": 32, "train_micro_batch_size_per_gpu": 2)"),
                       "a pipeline of"));
  CHECK_FALSE(contains(notices(R"("train_batch_size": 2)"), "a pipeline of"));  // nothing helps
}
