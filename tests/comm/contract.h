#pragma once

// The contract of every communicator, for any transport.

#include <cmath>
#include <cstring>
#include <future>
#include <numeric>

#include <catch2/catch.hpp>

#include "support/ranks.h"

namespace hgt {

inline const std::vector<std::string> kNoErrors2(2), kNoErrors3(3);

/// Numbers whose sum depends on the order of addition.
inline std::vector<float> awkward(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i * 7 + rank)) *
                std::pow(10.0f, static_cast<float>((i + rank) % 7));
  return values;
}

/// Sums are right and bit-identical on all ranks and from run to run.
inline void check_sums(const Connect& connect) {
  for (int size : {1, 2, 3, 4})
    for (std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{10007}}) {
      std::vector<std::vector<float>> first(size), again(size);
      for (auto* result : {&first, &again}) {
        const auto errors = run_ranks(connect, size, [&](Communicator& comm) {
          auto values = awkward(comm.rank(), count);
          comm.all_reduce_sum(values);
          (*result)[comm.rank()] = values;
        });
        CHECK(errors == std::vector<std::string>(size));
      }
      for (int rank = 0; rank < size; ++rank) {
        CHECK(std::memcmp(first[rank].data(), first[0].data(), count * 4) == 0);
        CHECK(std::memcmp(first[rank].data(), again[rank].data(), count * 4) == 0);
      }
      for (std::size_t i = 0; i < count; i += 997) {
        double sum = 0, scale = 0;
        for (int rank = 0; rank < size; ++rank) {
          sum += awkward(rank, count)[i];
          scale += std::abs(awkward(rank, count)[i]);
        }
        CHECK(std::abs(first[0][i] - sum) <= 1e-6 * scale);
      }
    }
}

/// Fp64 sums, broadcasts and barriers.
inline void check_other_collectives(const Connect& connect) {
  const auto errors = run_ranks(connect, 3, [](Communicator& comm) {
    std::vector<double> values{1.0 + comm.rank(), 1e-9};
    comm.all_reduce_sum(std::span<double>(values));
    if (values[0] != 6.0) throw Error(ErrorKind::kInternal, "wrong sum");
    comm.barrier();
    for (int root = 0; root < 3; ++root) {
      std::vector<std::byte> bytes(3'000'001,
                                   comm.rank() == root ? std::byte(root + 1) : std::byte{0});
      comm.broadcast(bytes, root);
      for (const std::byte b : bytes)
        if (b != std::byte(root + 1)) throw Error(ErrorKind::kInternal, "wrong byte");
    }
  });
  CHECK(errors == kNoErrors3);
}

/// Started sums run in order while the caller continues, and their bytes are counted.
inline void check_started_sums(const Connect& connect) {
  const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
    std::vector<std::vector<float>> buckets(5, std::vector<float>(1000, 1.0f));
    std::vector<std::uint64_t> tickets;
    for (auto& bucket : buckets) tickets.push_back(comm.start_all_reduce_sum(bucket));
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      comm.wait(tickets[i]);
      if (buckets[i][999] != 2.0f) throw Error(ErrorKind::kInternal, "wrong sum");
    }
    if (comm.reduced_bytes() != 5 * 1000 * 4) throw Error(ErrorKind::kInternal, "wrong byte count");
    if (comm.sequence() != 5) throw Error(ErrorKind::kInternal, "wrong sequence");
  });
  CHECK(errors == kNoErrors2);
}

/// Ranks that disagree about a collective get an error that names both.
inline void check_disagreement(const Connect& connect) {
  SECTION("its size") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(comm.rank() == 0 ? 8 : 12);
      comm.all_reduce_sum(values);
    });
    CHECK_THAT(errors[0],
               Catch::Contains("rank 0 is at collective 1 (sum of 8 fp32), but rank 1 is at "
                               "collective 1 (sum of 12 fp32)"));
    CHECK_THAT(errors[1], Catch::Contains("rank 1 is at collective 1 (sum of 12 fp32)"));
  }
  SECTION("its kind") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(8);
      comm.rank() == 0 ? comm.all_reduce_sum(values) : comm.barrier();
    });
    CHECK_THAT(errors[0], Catch::Contains("but rank 1 is at collective 1 (barrier)"));
  }
}

/// A peer that leaves is named, and so is the collective that it missed.
inline void check_lost_peer(const Connect& connect) {
  const auto errors = run_ranks(connect, 3, [](Communicator& comm) {
    std::vector<float> values(8);
    comm.all_reduce_sum(values);
    if (comm.rank() == 2) throw Error(ErrorKind::kInternal, "rank 2 dies");
    comm.all_reduce_sum(values);
  });
  // Each of the two may see the other fail before it sees rank 2 leave.
  CHECK_THAT(errors[0] + errors[1], Catch::Contains("lost rank 2"));
  CHECK_THAT(errors[0], Catch::Contains("collective 2 (sum of 8 fp32)"));
  CHECK_THAT(errors[1], Catch::Contains("collective 2 (sum of 8 fp32)"));
}

/// A peer that does not come is named on timeout.
inline void check_timeout(const Connect& connect) {
  std::promise<void> given_up;
  const auto errors = run_ranks(
      connect, 2,
      [&](Communicator& comm) {
        if (comm.rank() == 1) return given_up.get_future().wait();
        try {
          comm.barrier();
        } catch (const Error&) {
          given_up.set_value();
          throw;
        }
      },
      std::chrono::seconds(2));  // the ranks must have met by then
  CHECK_THAT(errors[0], Catch::Contains("rank 1 did not answer within 2 s"));
}

/// Abort wakes a rank that waits, and later calls throw too.
inline void check_abort(const Connect& connect) {
  std::promise<void> woken;  // until then rank 1 is there, but does not come
  const auto errors = run_ranks(connect, 2, [&](Communicator& comm) {
    std::vector<float> values(8);
    if (comm.rank() == 1) return woken.get_future().wait();
    const auto ticket = comm.start_all_reduce_sum(values);
    comm.abort();
    CHECK_THROWS_AS(comm.wait(ticket), Error);
    woken.set_value();
    comm.barrier();
  });
  CHECK_THAT(errors[0], Catch::Contains("communication was aborted"));
}

}  // namespace hgt
