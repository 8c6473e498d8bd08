#include "part_exchange.h"

#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/ranks.h"

using namespace hgt;

namespace {

/// The columns that each rank has of a matrix of `rows` rows with `sections` sections.
std::vector<Placement> columns(std::int64_t row, std::int64_t sections, int ranks) {
  const std::int64_t period = row / sections, chunk = period / ranks;
  std::vector<Placement> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back({chunk, period, rank * chunk, chunk});
  return out;
}

/// Which rank was given each element of a tensor of so many elements, -1 if none was. The ranks
/// have the elements `local` of their parts; the value of an element is its number.
std::vector<int> assembled(std::int64_t numel, Range local,
                           const std::vector<Placement>& of_ranks) {
  std::vector<int> given(static_cast<std::size_t>(numel), -1);
  const auto errors =
      run_ranks(over_shared_memory, static_cast<int>(of_ranks.size()), [&](Communicator& group) {
        std::vector<float> mine(static_cast<std::size_t>(local.size()));
        of_ranks[static_cast<std::size_t>(group.rank())].for_each_run(
            local, [&](const Placement::Run& run) {
              std::iota(mine.begin() + (run.local - local.begin),
                        mine.begin() + (run.local - local.begin) + run.size,
                        static_cast<float>(run.whole));
            });
        PartExchange exchange(&group);
        exchange.assemble(
            {local, Tensor(mine.data(), {local.size()})}, of_ranks, [&](const TensorPart& part) {
              if (part.elements.size() * 4 > PartExchange::kBytes)
                throw Error(ErrorKind::kInternal, "too much at once");
              for (std::int64_t i = part.elements.begin; i < part.elements.end; ++i) {
                if (part.values.data<float>()[i - part.elements.begin] != static_cast<float>(i))
                  throw Error(ErrorKind::kInternal, "another element's value");
                given[static_cast<std::size_t>(i)] = group.rank();
              }
            });
      });
  CHECK(errors == std::vector<std::string>(of_ranks.size()));
  return given;
}

}  // namespace

TEST_CASE("ranks put their columns together, and each gets ranges in turn") {
  constexpr std::int64_t kNumel = std::int64_t{5} << 19;  // 10 MiB: three ranges
  const std::vector<int> given =
      assembled(kNumel, {0, kNumel / 2}, columns(std::int64_t{1} << 10, 1, 2));
  std::vector<int> expected(static_cast<std::size_t>(kNumel));
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<int>(i / (PartExchange::kBytes / 4) % 2);
  CHECK(given == expected);
}

TEST_CASE(
    "elements that begin or end within rows are put together with what there is of the rows") {
  constexpr std::int64_t kRows = 10, kRow = 24;
  for (const std::int64_t sections : {1, 3})
    for (const int ranks : {2, 4}) {
      const std::vector<Placement> of_ranks = columns(kRow, sections, ranks);
      const std::int64_t numel = kRows * kRow / ranks;
      for (const Range local : {Range{0, numel}, Range{1, 2}, Range{1, numel}, Range{0, numel - 1},
                                Range{5, 31}, Range{kRow, 2 * kRow}}) {
        std::vector<bool> expected(static_cast<std::size_t>(kRows * kRow), false);
        for (const Placement& placement : of_ranks)
          placement.for_each_run(local, [&](const Placement::Run& run) {
            std::fill_n(expected.begin() + run.whole, run.size, true);
          });
        std::vector<bool> given;
        for (const int rank : assembled(kRows * kRow, local, of_ranks)) given.push_back(rank >= 0);
        CHECK(given == expected);
      }
    }
}

TEST_CASE("a rank without its group cannot put a tensor together") {
  float value = 0;
  PartExchange alone(nullptr);
  CHECK_THROWS_AS(
      alone.assemble({{0, 1}, Tensor(&value, {1})}, columns(2, 1, 2), [](const TensorPart&) {}),
      Error);
}

TEST_CASE("ranges end at multiples of their largest number of elements") {
  CHECK(ranges_of({3, 11}, 4) == std::vector<Range>{{3, 4}, {4, 8}, {8, 11}});
  CHECK(ranges_of({4, 8}, 4) == std::vector<Range>{{4, 8}});
  CHECK(ranges_of({5, 5}, 4).empty());
}
