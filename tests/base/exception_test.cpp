#include "hgtrain/base/exception.h"

#include <new>
#include <stdexcept>
#include <system_error>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("what the system refuses is no bug, and the hint names the limit") {
  const Error memory = error_from(std::bad_alloc());
  CHECK(memory.kind() == ErrorKind::kDevice);
  CHECK_THAT(memory.hint(), Catch::Contains("ulimit -v"));
  const Error thread = error_from(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(thread.kind() == ErrorKind::kDevice);
  CHECK_THAT(thread.hint(), Catch::Contains("ulimit -u") && Catch::Contains("pids.max"));
}

TEST_CASE("an error stays as it is, and anything else is a bug") {
  const Error error = error_from(Error(ErrorKind::kData, "damaged", "again").in("file"));
  CHECK(error.kind() == ErrorKind::kData);
  CHECK(error.hint() == "again");
  CHECK(error.context() == std::vector<std::string>{"file"});
  CHECK(error_from(std::runtime_error("x")).kind() == ErrorKind::kInternal);
}
