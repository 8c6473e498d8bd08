#pragma once

// The contract of every communicator, for any transport.

#include <cmath>
#include <cstring>
#include <future>
#include <numeric>

#include <catch2/catch.hpp>

#include "hgtrain/base/element.h"
#include "hgtrain/parallel/range.h"

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

/// Who owns what of `count` elements, in several ways.
inline std::vector<std::vector<OwnedRange>> layouts(std::int64_t count, int ranks) {
  std::vector<OwnedRange> even, uneven, several;
  for (int rank = 0; rank < ranks; ++rank) even.push_back({even_range(count, ranks, rank), rank});
  // From the last rank on; each owns a third of what is left, but rank 0 the rest.
  for (std::int64_t begin = 0, rank = ranks - 1; rank >= 0; --rank) {
    const std::int64_t end = rank == 0 ? count : begin + (count - begin) / 3;
    uneven.push_back({{begin, end}, static_cast<int>(rank)});
    begin = end;
  }
  for (std::int64_t begin = 0, i = 0; begin < count; ++i) {
    const std::int64_t end = std::min(count, begin + 1 + i * i * count / 300);
    several.push_back({{begin, end}, static_cast<int>((i * i + 1) % ranks)});
    begin = end;
  }
  return {even, uneven, several, {{{0, count}, ranks - 1}}};
}

/// Sums of 16-bit tensors are those of additions in fp32 in rank order, rounded once.
inline void check_16_bit_sums(const Connect& connect) {
  constexpr std::size_t kCount = 300'007;
  const auto errors = run_ranks(connect, 3, [](Communicator& comm) {
    for (const DType type : {DType::kBF16, DType::kF16})
      visit_element(type, [&]<class T>(T) {
        const auto value = [](int rank, std::size_t i) {
          return T(std::sin(static_cast<float>(i * 7 + rank)) * (i % 7 == 0 ? 100.0f : 1.0f));
        };
        std::vector<T> mine(kCount);
        for (std::size_t i = 0; i < kCount; ++i) mine[i] = value(comm.rank(), i);
        std::vector<T> scattered = mine;
        comm.all_reduce_sum(Tensor(mine.data(), {std::ssize(mine)}, type));
        for (std::size_t i = 0; i < kCount; ++i) {
          const T sum = float{value(0, i)} + float{value(1, i)} + float{value(2, i)};
          if (std::memcmp(&mine[i], &sum, sizeof sum) != 0)
            throw Error(ErrorKind::kInternal, "wrong sum");
        }
        const auto parts = layouts(kCount, 3)[1];
        comm.reduce_scatter_sum(Tensor(scattered.data(), {std::ssize(scattered)}, type), parts);
        for (const auto& [range, rank] : parts)
          if (rank == comm.rank() &&
              std::memcmp(&scattered[range.begin], &mine[range.begin],
                          static_cast<std::size_t>(range.size()) * sizeof(T)) != 0)
            throw Error(ErrorKind::kInternal, "wrong sum of a part");
      });
    if (comm.reduced_bytes() != 8 * kCount) throw Error(ErrorKind::kInternal, "wrong byte count");
  });
  CHECK(errors == kNoErrors3);
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
    const std::uint64_t of_sum = 2 * 2 * 16 / 3;
    if (comm.sent_bytes() != of_sum + 3'000'001)
      throw Error(ErrorKind::kInternal, "wrong count of what was sent");
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

inline std::vector<OwnedRange> in_bytes(std::vector<OwnedRange> parts, std::int64_t size) {
  for (OwnedRange& part : parts)
    part.elements = {part.elements.begin * size, part.elements.end * size};
  return parts;
}

/// Reduce-scatters and all-gathers with parts of all kinds. Sums have the bits of additions in rank
/// order.
inline void check_parts(const Connect& connect) {
  constexpr std::size_t kElements = 600'011;  // many turns of every transport
  for (int size : {1, 2, 3, 4}) {
    std::vector<std::vector<float>> own;
    std::vector<float> sums;
    for (int rank = 0; rank < size; ++rank) {
      own.push_back(awkward(rank, kElements));
      if (rank == 0) sums = own[0];
      for (std::size_t i = 0; rank > 0 && i < kElements; ++i) sums[i] += own[rank][i];
    }
    const auto same = [&](const std::vector<float>& values, Range range) {
      return range.size() == 0 ||  // memcmp takes no null pointers
             std::memcmp(values.data() + range.begin, sums.data() + range.begin,
                         static_cast<std::size_t>(range.size()) * sizeof(float)) == 0;
    };
    const auto errors = run_ranks(connect, size, [&](Communicator& comm) {
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2},
                                       std::int64_t{10007}, static_cast<std::int64_t>(kElements)}) {
        const std::vector<float> mine(own[comm.rank()].begin(), own[comm.rank()].begin() + count);
        auto reduced = mine;
        comm.all_reduce_sum(reduced);
        if (!same(reduced, {0, count})) throw Error(ErrorKind::kInternal, "all-reduce");
        for (const std::vector<OwnedRange>& parts : layouts(count, size)) {
          auto values = mine;
          comm.reduce_scatter_sum(values, parts);
          for (const auto& [range, rank] : parts) {
            if (rank != comm.rank())
              std::fill(values.data() + range.begin, values.data() + range.end, -1.0f);
            else if (!same(values, range))
              throw Error(ErrorKind::kInternal, "reduce-scatter");
          }
          comm.all_gather(std::as_writable_bytes(std::span(values)), in_bytes(parts, 4));
          if (!same(values, {0, count})) throw Error(ErrorKind::kInternal, "all-gather");
        }
      }
      std::vector<std::byte> bytes(7, static_cast<std::byte>(comm.rank()));  // no whole numbers
      comm.all_gather(bytes, std::vector<OwnedRange>{{{0, 3}, size - 1}, {{3, 7}, 0}});
      if (bytes[2] != static_cast<std::byte>(size - 1) || bytes[3] != std::byte{0})
        throw Error(ErrorKind::kInternal, "bytes");
    });
    CHECK(errors == std::vector<std::string>(size));
  }
}

/// Collectives of all kinds are in flight at once, and are awaited in another order.
inline void check_started_parts(const Connect& connect) {
  constexpr std::int64_t kCount = 100'003;
  const auto errors = run_ranks(connect, 3, [](Communicator& comm) {
    const auto parts = layouts(kCount, 3)[1];
    std::vector<std::vector<float>> reduced(4, std::vector<float>(kCount, 1.0f));
    std::vector<std::vector<float>> scattered = reduced, gathered(4);
    std::vector<std::uint64_t> tickets;
    for (int i = 0; i < 4; ++i) {
      gathered[i].assign(kCount, static_cast<float>(comm.rank() + i));
      tickets.push_back(comm.start_reduce_scatter_sum(scattered[i], parts));
      tickets.push_back(comm.start_all_reduce_sum(reduced[i]));
      tickets.push_back(comm.start_all_gather(std::as_writable_bytes(std::span(gathered[i])),
                                              in_bytes(parts, 4)));
    }
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) comm.wait(*ticket);
    for (int i = 0; i < 4; ++i)
      for (const auto& [range, rank] : parts)
        for (std::int64_t at = range.begin; at < range.end; ++at)
          if (reduced[i][at] != 3 || gathered[i][at] != static_cast<float>(rank + i) ||
              (rank == comm.rank() && scattered[i][at] != 3))
            throw Error(ErrorKind::kInternal, "wrong result");
    if (comm.reduced_bytes() != 8 * kCount * 4 || comm.gathered_bytes() != 4 * kCount * 4)
      throw Error(ErrorKind::kInternal, "wrong byte count");
    std::uint64_t own = 0;
    for (const auto& [range, rank] : parts)
      if (rank == comm.rank()) own += 4 * static_cast<std::uint64_t>(range.size());
    const std::uint64_t all = 4 * kCount;
    if (comm.sent_bytes() != 4 * (all - own + 2 * 2 * all / 3 + 2 * own))
      throw Error(ErrorKind::kInternal, "wrong count of what was sent");
    if (comm.sequence() != 12) throw Error(ErrorKind::kInternal, "wrong sequence");
  });
  CHECK(errors == kNoErrors3);
}

/// Parts that are not the parts of the values are refused before the collective is entered.
inline void check_wrong_parts(const Connect& connect) {
  const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
    const std::vector<std::vector<OwnedRange>> wrong = {
        {},
        {{{0, 7}, 0}},
        {{{0, 9}, 0}},
        {{{1, 8}, 0}},
        {{{0, 4}, 0}, {{5, 8}, 1}},
        {{{0, 4}, 0}, {{3, 8}, 1}},
        {{{4, 8}, 0}, {{0, 4}, 1}},
        {{{0, 4}, 0}, {{4, 2}, 1}, {{2, 8}, 1}},
        {{{0, 8}, 2}},
        {{{0, 8}, -1}},
    };
    std::vector<float> values(8);
    for (const auto& parts : wrong)
      for (const bool gathers : {false, true}) {
        ErrorKind kind = ErrorKind::kPeer;
        try {
          gathers ? comm.all_gather(std::as_writable_bytes(std::span(values).first(2)), parts)
                  : comm.reduce_scatter_sum(values, parts);
        } catch (const Error& error) {
          kind = error.kind();
        }
        if (kind != ErrorKind::kInternal) throw Error(ErrorKind::kInternal, "not refused");
      }
    if (comm.sequence() != 0) throw Error(ErrorKind::kInternal, "entered");
    comm.barrier();
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
  SECTION("its type") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(8);
      comm.all_reduce_sum(
          Tensor(values.data(), {8}, comm.rank() == 0 ? DType::kF32 : DType::kBF16));
    });
    CHECK_THAT(errors[0],
               Catch::Contains("rank 0 is at collective 1 (sum of 8 fp32), but rank 1 is at "
                               "collective 1 (sum of 8 bf16)"));
  }
  SECTION("its kind") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(8);
      comm.rank() == 0 ? comm.all_reduce_sum(values) : comm.barrier();
    });
    CHECK_THAT(errors[0], Catch::Contains("but rank 1 is at collective 1 (barrier)"));
  }
  SECTION("the size of its parts") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(8);
      const std::int64_t middle = comm.rank() == 0 ? 4 : 5;
      comm.reduce_scatter_sum(values, std::vector<OwnedRange>{{{0, middle}, 0}, {{middle, 8}, 1}});
    });
    CHECK_THAT(errors[0], Catch::Contains("ranks 0 and 1 disagree about the parts of collective 1 "
                                          "(reduce-scatter of 8 fp32)"));
    CHECK_THAT(errors[1], Catch::Contains("collective 1 (reduce-scatter of 8 fp32)"));
  }
  SECTION("the owners of its parts") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<std::byte> bytes(8);
      comm.all_gather(bytes, std::vector<OwnedRange>{{{0, 8}, comm.rank()}});
    });
    CHECK_THAT(errors[0], Catch::Contains("ranks 0 and 1 disagree about the parts of collective 1 "
                                          "(all-gather of 8 bytes)"));
  }
  SECTION("which of the two that have parts it is") {
    const auto errors = run_ranks(connect, 2, [](Communicator& comm) {
      std::vector<float> values(8);
      const std::vector<OwnedRange> parts{{{0, 8}, 0}};
      if (comm.rank() == 0)
        comm.reduce_scatter_sum(values, parts);
      else
        comm.all_gather(std::as_writable_bytes(std::span(values).first(2)), parts);
    });
    CHECK_THAT(errors[0], Catch::Contains("rank 0 is at collective 1 (reduce-scatter of 8 fp32), "
                                          "but rank 1 is at collective 1 (all-gather of 8 bytes)"));
  }
}

/// A peer that leaves is named, and so is the collective that it missed.
inline void check_lost_peer(const Connect& connect) {
  const auto check = [&](const char* name, const std::function<void(Communicator&)>& collective) {
    const auto errors = run_ranks(connect, 3, [&](Communicator& comm) {
      collective(comm);
      if (comm.rank() == 2) throw Error(ErrorKind::kInternal, "rank 2 dies");
      collective(comm);
    });
    // Each of the two may see the other fail before it sees rank 2 leave.
    CHECK_THAT(errors[0] + errors[1], Catch::Contains("lost rank 2"));
    CHECK_THAT(errors[0], Catch::Contains(name));
    CHECK_THAT(errors[1], Catch::Contains(name));
  };
  check("collective 2 (sum of 8 fp32)", [](Communicator& comm) {
    std::vector<float> values(8);
    comm.all_reduce_sum(values);
  });
  check("collective 2 (reduce-scatter of 8 fp32)", [](Communicator& comm) {
    std::vector<float> values(8);
    comm.reduce_scatter_sum(values, layouts(8, 3)[0]);
  });
  check("collective 2 (all-gather of 8 bytes)", [](Communicator& comm) {
    std::vector<std::byte> bytes(8);
    comm.all_gather(bytes, layouts(8, 3)[0]);
  });
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
