#include "hgtrain/wire/job_key.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a job key matches itself and no other") {
  const JobKey key = JobKey::random();
  CHECK(key.matches(key));
  CHECK_FALSE(key.matches(JobKey::random()));
  CHECK(JobKey::parse(key.hex()).matches(key));
  std::string flipped = key.hex();
  flipped.back() = flipped.back() == '0' ? '1' : '0';
  CHECK_FALSE(JobKey::parse(flipped).matches(key));
}

TEST_CASE("text that is not a key gives one that matches nothing, not even itself") {
  const std::string text =
      GENERATE(std::string(), std::string(63, 'a'), std::string(64, 'g'), std::string(64, '0'));
  CHECK_FALSE(JobKey::parse(text).matches(JobKey::parse(text)));
  CHECK_FALSE(JobKey().matches(JobKey()));
}
