#include "batch.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

struct Row {
  BatchConfig given;
  std::int64_t workers;
  BatchConfig expected;  ///< total 0: refused
};

}  // namespace

TEST_CASE("the batch triple follows DeepSpeed's rule") {
  const std::vector<Row> rows = {
      {{32, 16, 1}, 2, {32, 16, 1}},  {{32, 8, 2}, 2, {32, 8, 2}},  {{32, 18, 1}, 2, {}},
      {{32, 16, 0}, 2, {32, 16, 1}},  {{32, 8, 0}, 2, {32, 8, 2}},  {{32, 18, 0}, 2, {}},
      {{32, 0, 1}, 2, {32, 16, 1}},   {{0, 16, 1}, 2, {32, 16, 1}}, {{0, 8, 2}, 2, {32, 8, 2}},
      {{0, 16, 0}, 2, {32, 16, 1}},   {{64, 0, 0}, 1, {64, 64, 1}}, {{1, 0, 0}, 2, {}},
      {{256, 8, 0}, 2, {256, 8, 16}}, {{33, 16, 0}, 2, {}},         {{0, 0, 2}, 2, {}},
  };
  for (const Row& row : rows) {
    const BatchConfig b = complete_batch(row.given, row.workers);
    INFO(row.given.train_batch_size << " " << row.given.micro_batch_size << " "
                                    << row.given.gradient_accumulation_steps);
    const bool fits = !check_batch(row.given, row.workers, "");
    CHECK(fits == (row.expected.train_batch_size > 0));
    if (!fits) continue;
    CHECK(b.train_batch_size == row.expected.train_batch_size);
    CHECK(b.micro_batch_size == row.expected.micro_batch_size);
    CHECK(b.gradient_accumulation_steps == row.expected.gradient_accumulation_steps);
  }
}

TEST_CASE("the error shows the product and the nearest valid triples") {
  const auto problem =
      check_batch({256, 2, 18}, 7, "14 workers form 7 groups of 2 (2 tensor ranks)");
  REQUIRE(problem);
  CHECK(
      problem->message ==
      "train_batch_size = 256 is not train_micro_batch_size_per_gpu * gradient_accumulation_steps "
      "* data-parallel workers = 2 * 18 * 7 = 252: 14 workers form 7 groups of 2 (2 tensor ranks)");
  CHECK(
      problem->hint ==
      "these batches fit, as micro-batch * accumulation * workers: 252 = 2 * 18 * 7, or 266 = 2 * "
      "19 * 7");
  const auto fitting = [](const BatchConfig& asked, std::int64_t workers) {
    const std::string hint = check_batch(asked, workers, "")->hint;
    const std::size_t colon = hint.find(": ");
    return colon == std::string::npos ? hint : hint.substr(colon + 2);
  };
  CHECK(fitting({32, 18, 1}, 2) == "36 = 18 * 1 * 2, or 32 = 16 * 1 * 2");
  CHECK(fitting({1, 0, 1}, 2) == "set train_batch_size to 2, or start 1 worker");
  CHECK(fitting({7, 0, 0}, 2) == "set train_batch_size to 6 or 8, or start 1 worker");
  CHECK(fitting({7, 0, 3}, 2) == "set train_batch_size to 6 or 12");
  CHECK(fitting({4, 3, 0}, 2) ==
        "set train_batch_size to 6, or train_micro_batch_size_per_gpu to 2");
  CHECK(fitting({8, 0, 3}, 2) ==
        "set train_batch_size to 6 or 12, or gradient_accumulation_steps to 2");
  CHECK(fitting({16, 8, 0}, 3) ==
        "set train_batch_size to 24, or start 2 workers");  // a batch to be kept
  CHECK(fitting({16, 1, 0}, 64) == "set train_batch_size to 64, or start 16 workers");
  CHECK(fitting({8, 2, 4}, 2) == "8 = 2 * 2 * 2, or 16 = 2 * 4 * 2, or start 1 worker");
}

TEST_CASE("the error says how the workers would have to share the batch") {
  const auto message = [](const BatchConfig& asked, std::int64_t workers) {
    return check_batch(asked, workers, "")->message;
  };
  CHECK(message({8, 0, 0}, 3) == "a batch of 8 cannot be shared by 3 workers");
  CHECK(message({2, 0, 1}, 4) == "a batch of 2 cannot be shared by 4 workers");
  CHECK(message({33, 16, 0}, 2) ==
        "a batch of 33 cannot be shared by 2 workers in micro-batches of 16");
  CHECK(message({10, 0, 3}, 1) ==
        "a batch of 10 cannot be shared by 1 worker in 3 micro-batches each");
  const auto of_any_number = [](const BatchConfig& asked) {
    return check_batch(asked, 1, "", false)->message;
  };
  CHECK(of_any_number({4, 3, 0}) == "a batch of 4 is not a multiple of the micro-batch of 3");
  CHECK(of_any_number({4, 0, 3}) == "a batch of 4 cannot be divided into 3 micro-batches");
  CHECK(of_any_number({4, 3, 1}) ==
        "train_batch_size = 4 is not a multiple of train_micro_batch_size_per_gpu * "
        "gradient_accumulation_steps = 3 * 1 = 3");
  CHECK(message({512, 1024, 0}, 1) == "a micro-batch of 1024 exceeds the batch of 512");
  CHECK(message({512, 1024, 1}, 1) == "a micro-batch of 1024 exceeds the batch of 512");
  CHECK(check_batch({512, 1024, 1}, 1, "")->key == std::string("train_micro_batch_size_per_gpu"));
  CHECK(check_batch({33, 16, 0}, 2, "")->key == std::string("train_batch_size"));
}

TEST_CASE("a batch that does not fit into 64 bits is refused") {
  CHECK_THROWS_AS(complete_batch({0, INT64_MAX / 2, 3}, 1), Error);
  CHECK_THROWS_AS(check_batch({1, INT64_MAX / 2, 3}, 1, ""), Error);
}
