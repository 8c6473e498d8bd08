#include "hgtrain/comm/owner_files.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"
#include "hgtrain/comm/connect.h"

#include "support/ranks.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// CHECK for ranks that run at the same time, which Catch2 does not allow to call it: an error of
/// the rank.
void require(bool holds) {
  if (!holds) throw std::logic_error("not so on this rank");
}

/// Runs `body` as three ranks, of which those in `without` do not see the folder.
template <class Body>
std::vector<std::string> run_three(const std::string& folder, const std::vector<int>& without,
                                   const Body& body) {
  MemoryChannel files_channel;
  return run_ranks(over_tcp, 3, [&](Communicator& world) {
    const bool is_here = std::ranges::find(without, world.rank()) == without.end();
    std::vector<std::string> paths;
    if (world.rank() == 0) paths = {folder};
    OwnerFiles files(files_channel, world, {.rank = world.rank(), .size = 3}, "127.0.0.1",
                     {paths, is_here});
    require(files.ranks_without() == without);
    body(world, files);
    world.barrier();
  });
}

}  // namespace

TEST_CASE("a rank without the folder reaches it through rank 0") {
  const TemporaryFolder folder;
  const auto errors = run_three(folder.path(), {2}, [&](Communicator& world, OwnerFiles&) {
    if (world.rank() == 2) write_file_atomically(folder / "text", "from afar");
    world.barrier();
    if (world.rank() == 0) CHECK(read_file(folder / "text", 100) == "from afar");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("ranks that all see the folder connect to nobody") {
  const TemporaryFolder folder;
  const FileOps* const before = &file_ops();
  const auto errors = run_three(
      folder.path(), {}, [&](Communicator&, OwnerFiles&) { require(&file_ops() == before); });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("rank 0 that gives up ends the calls of the others") {
  const TemporaryFolder folder;
  const auto errors = run_three(folder.path(), {1}, [&](Communicator& world, OwnerFiles& files) {
    if (world.rank() == 0) files.abort();
    world.barrier();
    if (world.rank() == 1)
      CHECK_THROWS_WITH(path_exists(folder / "text"), Catch::Contains("lost rank 0"));
    world.barrier();
  });
  CHECK(errors == std::vector<std::string>(3));
}
