#include "hgtrain/comm/together.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "hgtrain/base/host.h"

#include "support/ranks.h"

using namespace hgt;

TEST_CASE("every rank gets the results of all ranks") {
  for (const int size : {1, 2, 3}) {
    const auto errors = run_ranks(over_shared_memory, size, [&](Communicator& comm) {
      const std::string large(300'000, static_cast<char>('a' + comm.rank()));
      const auto results = run_together(comm, [&] { return comm.rank() == 1 ? "" : large; });
      for (int rank = 0; rank < size; ++rank)
        if (results.at(static_cast<std::size_t>(rank)) !=
            (rank == 1 ? "" : std::string(300'000, static_cast<char>('a' + rank))))
          throw Error(ErrorKind::kInternal, "other results");
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
  }
}

TEST_CASE("the error of the first rank that fails is thrown on all, and they can continue") {
  const auto errors = run_ranks(over_shared_memory, 3, [](Communicator& comm) {
    try {
      run_together(comm, [&]() -> std::string {
        if (comm.rank() == 1)
          throw Error(ErrorKind::kCheck,
                      "bad \xff"
                      "number",
                      "a hint")
              .in("file");
        if (comm.rank() == 2) throw std::runtime_error("later");
        return "fine";
      });
      throw Error(ErrorKind::kInternal, "no error");
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kCheck || e.message() != "bad \xef\xbf\xbdnumber" ||
          e.hint() != "a hint" ||
          e.context() != std::vector<std::string>{"file", "rank 1 on " + host_name()})
        throw;
    }
    comm.barrier();
  });
  CHECK(errors == std::vector<std::string>(3));
}
