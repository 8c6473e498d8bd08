#include "host_range.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

using Words = std::vector<std::string>;

TEST_CASE("words in brackets are not split, and spaces around a word do not belong to it") {
  CHECK(split_outside_brackets("a:4, n[1,3]:2 ,b", ',') == Words{"a:4", "n[1,3]:2", "b"});
  CHECK(split_outside_brackets("a@@", '@') == Words{"a", "", ""});
}

TEST_CASE("ranges of names are Slurm's") {
  CHECK(expand_names("a") == Words{"a"});
  CHECK(expand_names("n[08-10,3]-ib") == Words{"n08-ib", "n09-ib", "n10-ib", "n3-ib"});
  CHECK(expand_names("r[1-2]n[1, 2]") == Words{"r1n1", "r1n2", "r2n1", "r2n2"});
  CHECK(expand_names("me@[fd00::1]") == Words{"me@[fd00::1]"});
  CHECK(expand_names("n[1-4096]").size() == 4096);
}

TEST_CASE("a range that makes no sense is refused") {
  for (const char* text : {"n[", "n[]", "n[1-]", "n[-1]", "n[a]", "n[3-1]", "n[1,,2]", "n[1-2-3]",
                           "n[1-9999]", "n[1-100]m[1-100]", "n[99999999999]"}) {
    INFO(text);
    CHECK_THROWS_AS(expand_names(text), Error);
  }
}

TEST_CASE("devices are numbers, ranges of them and UUIDs") {
  CHECK(device_list("0-2, 5,GPU-1a,MIG-7/0") == Words{"0", "1", "2", "5", "GPU-1a", "MIG-7/0"});
  CHECK(device_list("08") == Words{"8"});
  for (const char* text : {"", "1,", "-1", "GPU", "1:2", "2-1", "GPU-1\n"}) {
    INFO(text);
    CHECK_THROWS_AS(device_list(text), Error);
  }
}
