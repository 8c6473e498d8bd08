#include "batch_loader.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "fakes.h"

using namespace hgt;

namespace {

Batch batch_of(const Dataset& data, std::int64_t consumed, Range rows, const SampleForm& form) {
  Batch batch;
  read_batch(data, consumed, rows, form, batch);
  return batch;
}

}  // namespace

TEST_CASE("a batch holds the rank's rows, and the targets are the next tokens") {
  const FakeDataset data(100, 4);
  const Batch batch = batch_of(data, 10, {2, 4}, {4});
  CHECK(batch.samples == std::vector<std::int64_t>{12, 13});
  std::vector<std::int32_t> sample(5);
  data.read(13, sample);
  for (int i = 0; i < 4; ++i) {
    CHECK(batch.tokens[4 + i] == sample[i]);
    CHECK(batch.targets[4 + i] == sample[i + 1]);
  }
}

TEST_CASE("positions begin anew with each document of a sample") {
  const FakeDataset data(100, 4);
  CHECK(batch_of(data, 10, {0, 1}, {4}).positions.empty());
  const std::int32_t start = batch_of(data, 10, {0, 1}, {4}).tokens[2];
  CHECK(batch_of(data, 10, {0, 1}, {4, start}).positions == std::vector<std::int32_t>{0, 1, 0, 1});
}

TEST_CASE("context ranks get their tokens of the same samples, with their positions") {
  const FakeDataset data(100, 8);
  const Batch whole = batch_of(data, 10, {0, 2}, {8});
  const std::int32_t start = whole.tokens[5];
  for (const std::optional<std::int64_t> document : {std::optional<std::int64_t>(), {start}})
    for (const int rank : {0, 1}) {
      const SampleForm form{8, document, 2, rank};
      const Batch part = batch_of(data, 10, {0, 2}, form);
      CHECK(part.samples == whole.samples);
      REQUIRE(part.tokens.size() == 8);
      const Batch documents = batch_of(data, 10, {0, 2}, {8, document});
      for (std::size_t i = 0; i < 8; ++i) {
        const auto token = static_cast<std::size_t>(form.tokens().token(static_cast<int>(i % 4)));
        const std::size_t at = i / 4 * 8 + token;
        CHECK(part.tokens[i] == whole.tokens[at]);
        CHECK(part.targets[i] == whole.targets[at]);
        CHECK(part.positions[i] == (document ? documents.positions[at] : static_cast<int>(token)));
      }
    }
}

TEST_CASE("batches follow each other by the size of the step") {
  const FakeDataset data(100, 4);
  BatchLoader loader(data, {1, 2}, 8, {4}, 16);
  CHECK(loader.next().samples == std::vector<std::int64_t>{17});
  CHECK(loader.next().samples == std::vector<std::int64_t>{25});
  const Batch& third = loader.next();
  CHECK(third.samples == std::vector<std::int64_t>{33});
  CHECK(third.tokens == batch_of(data, 33, {0, 1}, {4}).tokens);
}

namespace {
class BrokenDataset final : public Dataset {
 public:
  std::int64_t num_samples() const override { return 1; }
  std::int64_t num_tokens() const override { return 1; }
  std::uint64_t fingerprint() const override { return 0; }
  std::int64_t sample_at(std::int64_t) const override { return 0; }
  void read(std::int64_t, std::span<std::int32_t>) const override {
    throw Error(ErrorKind::kData, "damaged");
  }
};
}  // namespace

TEST_CASE("what reading ahead throws comes out where the batch is taken") {
  const BrokenDataset data;
  BatchLoader loader(data, {0, 1}, 1, {4}, 0);
  CHECK_THROWS_WITH(loader.next(), "damaged");
  CHECK_THROWS_WITH(loader.next(), "damaged");
}
