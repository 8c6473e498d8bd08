#include "two_level_sum.h"

#include <catch2/catch.hpp>

#include "contract.h"

using namespace hgt;

namespace {

std::vector<std::pair<int, int>> ranks(const std::vector<std::string>& hosts) {
  std::vector<std::pair<int, int>> out;
  for (const RanksOfHost& host : ranks_of_hosts(hosts)) out.emplace_back(host.first, host.size);
  return out;
}

/// Ranks of hosts with so many ranks each.
Connect on_hosts(const std::vector<int>& sizes) {
  return [sizes](ControlChannel& channel, GroupOptions options) {
    int host = 0;
    for (int after = sizes[0]; after <= options.rank;
         after += sizes[static_cast<std::size_t>(host)])
      ++host;
    options.host = std::string(1, static_cast<char>('a' + host));
    return connect_tcp(channel, options);
  };
}

/// What rank 0 has after a sum.
template <class T>
std::vector<T> sum_of(const Connect& connect, int ranks, std::size_t count, DType type) {
  std::vector<std::vector<T>> sums(static_cast<std::size_t>(ranks));
  const auto errors = run_ranks(connect, ranks, [&](Communicator& comm) {
    std::vector<T> values;
    for (const float value : awkward(comm.rank(), count)) values.push_back(static_cast<T>(value));
    comm.wait(comm.start_all_reduce_sum(std::as_writable_bytes(std::span(values)), type));
    sums[static_cast<std::size_t>(comm.rank())] = values;
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  for (const auto& other : sums)
    CHECK(std::memcmp(other.data(), sums[0].data(), count * sizeof(T)) == 0);
  return sums[0];
}

template <class T>
bool are_equal(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE("hosts of a group are found if several ranks share one, and there are several") {
  using Ranks = std::vector<std::pair<int, int>>;
  CHECK(ranks({"a", "a", "b", "b"}) == Ranks{{0, 2}, {2, 2}});
  CHECK(ranks({"a", "b", "b", "b", "c"}) == Ranks{{0, 1}, {1, 3}, {4, 1}});
  CHECK(ranks({"a", "a"}).empty());
  CHECK(ranks({"a", "b"}).empty());
  CHECK(ranks({"a", "b", "a"}).empty());
  CHECK(ranks({"a", "a", "", ""}).empty());
}

TEST_CASE("sums over two levels have the bits of one level, however many ranks the hosts have") {
  const std::vector<int> sizes = GENERATE(
      values<std::vector<int>>({{2, 2}, {1, 3}, {3, 1}, {2, 1, 2}, {1, 2, 3}, {2, 2, 2, 2}}));
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{150'007}})
    CHECK(are_equal(sum_of<float>(on_hosts(sizes), ranks, count, DType::kF32),
                    sum_of<float>(over_tcp, ranks, count, DType::kF32)));
  CHECK(are_equal(sum_of<double>(on_hosts(sizes), ranks, 1000, DType::kF64),
                  sum_of<double>(over_tcp, ranks, 1000, DType::kF64)));
}

TEST_CASE("parts over two levels are right, however many ranks the hosts have") {
  const std::vector<int> sizes =
      GENERATE(values<std::vector<int>>({{1, 3}, {3, 1}, {2, 1, 2}, {1, 2, 3}, {2, 2, 2, 2}}));
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  constexpr std::size_t kCount = 150'007;
  const std::vector<float> sums = sum_of<float>(over_tcp, ranks, kCount, DType::kF32);
  const auto errors = run_ranks(on_hosts(sizes), ranks, [&](Communicator& comm) {
    for (const std::vector<OwnedRange>& parts : layouts(kCount, ranks)) {
      std::vector<float> values = awkward(comm.rank(), kCount);
      comm.reduce_scatter_sum(values, parts);
      for (const auto& [range, rank] : parts)
        if (rank != comm.rank())
          std::fill(values.data() + range.begin, values.data() + range.end, -1.0f);
      comm.all_gather(std::as_writable_bytes(std::span(values)), in_bytes(parts, sizeof(float)));
      if (!are_equal(values, sums)) throw Error(ErrorKind::kInternal, "other values");
    }
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("over two levels: sums are right and bit-identical on all ranks and from run to run") {
  check_sums(over_two_levels);
}

TEST_CASE("over two levels: sums of 16-bit values are rounded once") {
  check_16_bit_sums(over_two_levels);
}

TEST_CASE("over two levels: collectives of all kinds") {
  check_other_collectives(over_two_levels);
  check_started_sums(over_two_levels);
  check_parts(over_two_levels);
  check_started_parts(over_two_levels);
}

TEST_CASE("over two levels: a peer that leaves or does not come is named") {
  check_lost_peer(over_two_levels);
  check_timeout(over_two_levels);
}

TEST_CASE("over two levels: abort wakes a rank that waits, and later calls throw too") {
  check_abort(over_two_levels);
}
