#include "environment.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/run_checkpoints.h"

using namespace hgt;

namespace {

/// The environment with this variable, which is not set before or after.
Environment environment_with(const char* name, const std::string& value) {
  struct Variable {
    const char* name;
    ~Variable() { unsetenv(name); }
  } variable{name};
  setenv(name, value.c_str(), 1);
  return read_environment();
}

}  // namespace

TEST_CASE("a worker keeps each checkpoint to which the job may have to go back") {
  const auto needed = [](const std::string& paths) {
    return environment_with("HGTRAIN_NEEDED_CHECKPOINTS", paths).needed_steps;
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(needed("runs/a/checkpoints/" + step_name(40)) == Steps{40});
  CHECK(needed("/data/a/" + step_name(7) + ":b/" + step_name(12)) == Steps{7, 12});
  CHECK(needed("runs/with:colon/checkpoints/" + step_name(3)) == Steps{3});
  CHECK(needed("").empty());
  CHECK(needed("runs/a/checkpoints/best").empty());
  CHECK(read_environment().needed_steps.empty());
}

TEST_CASE("a variable that is no number of a rank is named") {
  for (const char* value : {"-1", "one", "1x", "", "99999999999"}) {
    INFO(value);
    CHECK_THROWS_WITH(environment_with("RANK", value), Catch::StartsWith("RANK = '"));
  }
  CHECK_THROWS_WITH(environment_with("RANK", "1"), "RANK = 1 is not below WORLD_SIZE = 1");
}
