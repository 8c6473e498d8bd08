#include "plan_fit.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// GPT-2 of 124M parameters, 8 samples of 1024 tokens.
TrainPlan plan_for(const std::string& device, std::int64_t width = 768) {
  TrainPlan plan;
  plan.config = load_config_text(R"({"train_batch_size": 8, "model": {"model_type": "gpt2"},
      "training": {"train_iters": 100, "seq_length": 1024}, "data": {"train_data_path": "x"}})",
                                 "f.json", {{"model.n_embd", std::to_string(width)}, 1})
                    .config;
  plan.config.model.vocab_size = 50257;
  plan.config.hardware.device = device;
  plan.config.hardware.threads = 1;
  return plan;
}

std::string refusal(const PlanFit& fit) {
  try {
    fit.require();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    return e.message() + " | " + e.hint();
  }
  return "";
}

}  // namespace

TEST_CASE("a plan says whether it fits a GPU, and a plan that does not is refused with a way out") {
  const TrainPlan plan = plan_for("cuda");
  const PlanFit fits = fit_of(plan, "h100").value();
  CHECK(fits.text().starts_with("fits h100   yes: "));
  CHECK(refusal(fits).empty());
  const PlanFit small = fit_of(plan, "rtx3050 laptop").value();
  CHECK(small.text().starts_with("fits rtx3050 laptop no: "));
  CHECK(refusal(small).find("the job does not fit rtx3050 laptop: it takes ") == 0);
  CHECK(refusal(small).find("train_micro_batch_size_per_gpu = ") != std::string::npos);
  CHECK_THROWS_WITH(fit_of(plan, "gtx1080ti"), Catch::Contains("has compute capability 6.1"));
}

TEST_CASE("a plan that is a little too large does not read as if it fitted") {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const PlanFit fit{.gpu = "88GB", .asked = 80 * kGiB + kGiB / 64, .room = 80 * kGiB};
  CHECK(fit.text().starts_with("fits 88GB   no: 80.02 GiB of 80.00 GiB; "));
  CHECK(refusal(fit).starts_with(
      "the job does not fit 88GB: it takes 80.02 GiB of memory, and 80.00 GiB are free"));
}

TEST_CASE("workers on the CPU fit what is free of this machine's memory") {
  CHECK(refusal(fit_of(plan_for("cpu", 32), "").value()).empty());
  CHECK_THAT(fit_of(plan_for("cpu", 32), "")->text(),
             Catch::StartsWith("fits here   yes: ") &&
                 Catch::Contains(" MiB, with 16.0 MiB for each worker's program, of "));
  const PlanFit huge = fit_of(plan_for("cpu", 768 * 128), "").value();
  CHECK(refusal(huge).find("the job does not fit this machine: it takes ") == 0);
  CHECK(huge.text().find("no: ") != std::string::npos);
  CHECK(huge.largest_micro_batch == 0);
}

TEST_CASE("fewer workers are a way out") {
  TrainPlan plan = plan_for("cpu", 768);
  plan.config.batch = {
      .train_batch_size = 1024, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  plan.workers = 1024;
  CHECK(fit_of(plan, "")->hint.find("it fits with --num_workers ") == 0);
}

TEST_CASE("nothing is known of GPUs that are not named") {
  CHECK_FALSE(fit_of(plan_for("cuda"), ""));
}

TEST_CASE("workers on GPUs offload no more than is free of this machine's memory") {
  TrainPlan plan = plan_for("cuda");
  plan.config.zero.offload_optimizer = "cpu";
  CHECK_NOTHROW(require_room_to_offload(plan));
  plan.workers = 100'000;
  CHECK_THROWS_WITH(require_room_to_offload(plan), Catch::StartsWith("the workers would offload "));
  plan.config.zero.offload_optimizer = "none";
  CHECK_NOTHROW(require_room_to_offload(plan));
}
