#include "shared_segment.h"

#include <algorithm>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

using namespace hgt;

TEST_CASE(
    "ranks that open a segment see each other's bytes, and nobody can open it once it is gone") {
  std::optional<SharedSegment> made = SharedSegment::create(100);
  const std::string name = made->name();
  CHECK_THROWS_WITH(SharedSegment::open(name, 101), Catch::Contains("has another size"));
  const SharedSegment found = SharedSegment::open(name, 100);
  CHECK(found.data()[99] == std::byte{0});
  made->data()[99] = std::byte{7};
  CHECK(found.data()[99] == std::byte{7});
  made.reset();
  CHECK(found.data()[99] == std::byte{7});
  CHECK_THROWS_WITH(SharedSegment::open(name, 100), Catch::Contains("belongs to another machine"));
}

TEST_CASE("a segment has no file that could stay") {
  const auto files = [] { return list_folder("/dev/shm"); };
  const auto before = files();
  const SharedSegment made = SharedSegment::create(100);
  const SharedSegment found = SharedSegment::open(made.name(), 100);
  for (const std::string& name : files())
    if (std::ranges::find(before, name) == before.end()) CHECK_FALSE(name.starts_with("hgtrain-"));
}

TEST_CASE("a segment for which there is no room is refused") {
  CHECK_THROWS_AS(SharedSegment::create(std::size_t{1} << 50), Error);
}

TEST_CASE("what is not the name of a segment is refused") {
  for (const char* name :
       {"", "x", "/", "/proc/self/fd/0", "/proc/self/fd/0/hgtrain-x", "/etc/passwd"})
    CHECK_THROWS_AS(SharedSegment::open(name, 100), Error);
}

TEST_CASE("a rank is held while its process lives, however that ends") {
  const SharedSegment ours = SharedSegment::create(100);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SharedSegment theirs = SharedSegment::open(ours.name(), 100);
    theirs.hold(1);
    (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(ours.is_held(1));
  CHECK_FALSE(ours.is_held(0));
  CHECK_THROWS_AS(ours.hold(1), Error);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(ours.is_held(1));
  ::close(ready[0]);
}
