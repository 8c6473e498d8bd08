#include "state_exchange.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/arch/rank_plan.h"

#include "support/ranks.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

/// A model of more than three chunks.
Config config_of_chunks() {
  Config config = tiny_config();
  config.model.vocab_size = 60'000;
  config.model.hidden_size = 256;
  config.model.intermediate_size = 64;
  return config;
}

/// The buffer of a rank, which has only what it owns, and what all shall have.
struct Part {
  Part(const Config& config, Communicator& comm, float of_buffer)
      : table(parameter_table(config.model, false)),
        plan(plan_rank(config, table, comm.rank(), comm.size())),
        values(static_cast<std::size_t>(plan.elements())),
        expected(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i)
      expected[i] = of_buffer + static_cast<float>(i % 1000);
    for (const Slice& slice : plan.slices())
      std::copy_n(expected.begin() + slice.local, slice.elements.size(),
                  values.begin() + slice.local);
  }
  FlatTensor flat() { return {Tensor(values.data(), {std::ssize(values)})}; }

  ParameterTable table;
  RankPlan plan;
  std::vector<float> values, expected;
};

}  // namespace

TEST_CASE("all ranks get what each has read, in whatever order it read") {
  for (const int ranks : {1, 3}) {
    const auto errors = run_ranks(over_shared_memory, ranks, [&](Communicator& comm) {
      const Config config = config_of_chunks();
      Part first(config, comm, 0), second(config, comm, 5000), other(config, comm, 0);
      StateExchange exchange(first.table, first.plan, comm, {first.flat(), second.flat()});
      std::vector<Parameter> order = first.table.parameters;
      std::ranges::shuffle(order, std::minstd_rand(static_cast<unsigned>(comm.rank())));
      for (Part* part : {&second, &other, &first})
        for (const Parameter& parameter : order) exchange.read(part->flat().values, parameter);
      exchange.finish();
      REQUIRE(first.plan.elements() > 3 * StateExchange::kElements);
      if (first.values != first.expected || second.values != second.expected)
        throw Error(ErrorKind::kInternal, "a rank lacks what another one read");
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  }
}

TEST_CASE("a rank that cannot read leaves no other waiting") {
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    Part part(config_of_chunks(), comm, 0);
    StateExchange exchange(part.table, part.plan, comm, {part.flat()});
    if (comm.rank() == 0)
      for (const Parameter& parameter : part.table.parameters)
        exchange.read(part.flat().values, parameter);
    exchange.finish();
    if (part.values != part.expected) throw Error(ErrorKind::kInternal, "values are missing");
  });
  CHECK(errors == std::vector<std::string>(2));
}
