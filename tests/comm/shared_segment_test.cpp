#include "shared_segment.h"

#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

std::string name_of(const char* what) {
  return "hgtrain-test-" + std::to_string(::getpid()) + what;
}

}  // namespace

TEST_CASE("those who open a segment see each other's bytes, and nobody once its name is gone") {
  const SharedSegment made = SharedSegment::create(name_of("a"), 100);
  CHECK_THROWS_AS(SharedSegment::create(name_of("a"), 100), Error);
  CHECK_THROWS_AS(SharedSegment::open(name_of("a"), 101), Error);
  const SharedSegment found = SharedSegment::open(name_of("a"), 100);
  made.remove_name();
  CHECK(found.data()[99] == std::byte{0});
  made.data()[99] = std::byte{7};
  CHECK(found.data()[99] == std::byte{7});
  CHECK_THROWS_AS(SharedSegment::open(name_of("a"), 100), Error);
}

TEST_CASE("a segment there is no room for is refused and leaves nothing") {
  CHECK_THROWS_AS(SharedSegment::create(name_of("b"), std::size_t{1} << 50), Error);
  CHECK_FALSE(std::filesystem::exists("/dev/shm/" + name_of("b")));
}

TEST_CASE("a rank is held while its process lives, however that ends") {
  const std::string name = name_of("c");
  const SharedSegment ours = SharedSegment::create(name, 100);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SharedSegment theirs = SharedSegment::open(name, 100);
    theirs.hold(1);
    (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ours.remove_name();
  CHECK(ours.is_held(1));
  CHECK_FALSE(ours.is_held(0));
  CHECK_THROWS_AS(ours.hold(1), Error);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(ours.is_held(1));
  ::close(ready[0]);
}
