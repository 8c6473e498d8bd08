#include "hgtrain/data/dataset.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/data_config.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

namespace {

constexpr std::int64_t kVocab = 1 << 15;

/// A folder with bare files a.bin, b.bin, ... of as many counting tokens as said.
class Files {
 public:
  explicit Files(const std::vector<std::int64_t>& token_counts) {
    char name = 'a';
    for (const std::int64_t n : token_counts) {
      const std::string path = folder_ / std::string(1, name++) + ".bin";
      BytesBuilder().put_all<std::uint16_t>(counting(n)).save(path);
      config.train.push_back({path, 0.0});
    }
  }
  std::unique_ptr<Dataset> open(std::int64_t seq_length,
                                Dataset::Split split = Dataset::Split::kTrain) const {
    return Dataset::open(config, seq_length, split, kVocab);
  }
  DataConfig config;

 private:
  TemporaryFolder folder_;
};

std::vector<std::int32_t> read(const Dataset& data, std::int64_t sample, std::int64_t seq_length) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_length) + 1);
  data.read(sample, tokens);
  return tokens;
}

std::vector<std::int64_t> order(const Dataset& data, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> samples;
  for (std::int64_t p = first; p < first + count; ++p) samples.push_back(data.sample_at(p));
  return samples;
}

bool is_permutation_of_range(std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

TEST_CASE("without shuffle sample j is the tokens jT .. jT+T") {
  Files files({42});
  files.config.shuffle = false;
  const auto data = files.open(10);
  REQUIRE(data->num_samples() == 4);  // 41 tokens are four samples, one is left over
  CHECK(read(*data, data->sample_at(2), 10) ==
        std::vector{20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
  CHECK(order(*data, 0, 6) == std::vector<std::int64_t>{0, 1, 2, 3, 0, 1});
}

TEST_CASE("every epoch is a permutation, a different one, and the same in every process") {
  for (const std::int64_t n : {1, 2, 3, 5, 16, 17, 1000}) {
    Files files({n * 4 + 1});
    const auto data = files.open(4);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch)
      CHECK(is_permutation_of_range(order(*data, epoch * n, n)));
    CHECK(order(*data, 0, 3 * n) == order(*files.open(4), 0, 3 * n));
  }
  Files files({401});
  const auto data = files.open(4);
  const auto first = order(*data, 0, 100);
  CHECK(first != order(*data, 100, 100));
  files.config.seed = 99;
  CHECK(first != order(*files.open(4), 0, 100));
}

TEST_CASE("several files without weights are each read once an epoch") {
  Files files({41, 21});
  const auto data = files.open(10);
  CHECK(data->num_samples() == 6);
  CHECK(data->num_tokens() == 62);
  CHECK(is_permutation_of_range(order(*data, 0, 6)));
  CHECK(read(*data, 4, 10)[0] == 0);  // the second file starts anew
  CHECK(read(*data, 5, 10)[0] == 10);
}

TEST_CASE("weights set each file's share, and no file repeats within its own epoch") {
  Files files({101, 901});  // 10 and 90 samples
  files.config.train[0].weight = 3;
  files.config.train[1].weight = 1;
  for (const bool shuffle : {true, false}) {
    files.config.shuffle = shuffle;
    const auto data = files.open(10);
    REQUIRE(data->num_samples() == 100);
    std::vector<std::int64_t> first, second;
    for (const std::int64_t sample : order(*data, 0, 1000))
      (sample < 10 ? first : second).push_back(sample < 10 ? sample : sample - 10);
    CHECK(first.size() == 750);
    for (std::size_t at = 0; at + 10 <= first.size(); at += 10)
      REQUIRE(is_permutation_of_range({first.begin() + at, first.begin() + at + 10}));
    for (std::size_t at = 0; at + 90 <= second.size(); at += 90)
      REQUIRE(is_permutation_of_range({second.begin() + at, second.begin() + at + 90}));
  }
}

TEST_CASE("the validation split is the tail and shares one boundary token") {
  Files files({101});
  files.config.valid_fraction = 0.2;
  files.config.shuffle = false;
  const auto train = files.open(10), valid = files.open(10, Dataset::Split::kValid);
  CHECK(train->num_samples() == 8);
  CHECK(valid->num_samples() == 2);
  CHECK(read(*train, 7, 10).back() == 80);
  CHECK(read(*valid, 0, 10).front() == 80);
  CHECK(read(*valid, 1, 10).back() == 100);

  files.config.valid_fraction = 0.001;  // never nothing
  CHECK(files.open(10, Dataset::Split::kValid)->num_samples() == 1);
}

TEST_CASE("validation may have files of its own") {
  Files files({101, 51});
  files.config.valid = {files.config.train[1]};
  files.config.train.pop_back();
  CHECK(files.open(10)->num_samples() == 10);
  CHECK(files.open(10, Dataset::Split::kValid)->num_samples() == 5);
  files.config.valid_fraction = 0.1;
  CHECK_THROWS_WITH(files.open(10), Contains("both"));
}

TEST_CASE("too few tokens are refused with the numbers") {
  Files files({100});
  try {
    files.open(100);
    FAIL("opened");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kData);
    CHECK_THAT(e.message(), Contains("holds 100 tokens") && Contains("needs 101"));
    CHECK_THAT(e.hint(), Contains("at most 99"));
  }
  files.config.valid_fraction = 0.5;
  CHECK_THROWS_WITH(files.open(60), Contains("a training and a validation sample"));
  CHECK_THROWS_WITH(Files({0}).open(1), Contains("holds 0 tokens"));
}

TEST_CASE("settings that make no sense are refused") {
  CHECK_THROWS_WITH(Files({}).open(4), Contains("data.train_data_path names no files"));
  Files files({100, 100});
  CHECK_THROWS_WITH(files.open(4, Dataset::Split::kValid), Contains("no validation data"));
  CHECK_THROWS_WITH(files.open(0), Contains("seq_length = 0"));
  files.config.train[0].weight = -1;
  CHECK_THROWS_WITH(files.open(4), Contains("weight"));
  files.config.train[0].weight = 1;
  CHECK_THROWS_WITH(files.open(4), Contains("some have none"));
  files.config.valid_fraction = 1;
  CHECK_THROWS_WITH(files.open(4), Contains("valid_fraction"));
}

TEST_CASE("the fingerprint depends on the files") {
  CHECK(Files({100}).open(4)->fingerprint() == Files({100}).open(4)->fingerprint());
  CHECK(Files({100}).open(4)->fingerprint() != Files({102}).open(4)->fingerprint());
}
