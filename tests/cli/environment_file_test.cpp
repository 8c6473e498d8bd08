#include "environment_file.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;
using namespace std::string_literals;

TEST_CASE("a file of variables has a line for each") {
  const std::map<std::string, std::string> expected{
      {"A", "1"}, {"B_2", "x=y z"}, {"C", ""}, {"D", "\"$HOME\""}};
  CHECK(parse_environment_file("A=0\n# B=1\n\n B_2 = x=y z \r\nA=1\nC=\nD=\"$HOME\"", "f") ==
        expected);
  CHECK(parse_environment_file("", "f").empty());
  CHECK(parse_environment_file("\xEF\xBB\xBF"
                               "A=1",
                               "f")
            .contains("A"));
}

TEST_CASE("every malformed line of a file of variables is named, without its value") {
  for (const std::string& wrong : {"A"s, "=1"s, "export A=1"s, "2A=1"s, "A-B=1"s, "A=\0"s}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_environment_file("A=1\n" + wrong + "\nB=secret", "dir/f"),
                      "dir/f:2: this line is not NAME=VALUE");
  }
}

TEST_CASE(
    "a line of a file of variables that a shell would take, or the launcher sets, has its hint") {
  const auto refusal = [](const std::string& line) {
    try {
      parse_environment_file("A=1\n" + line, "f");
      return std::string();
    } catch (const Error& e) {
      return e.render();
    }
  };
  CHECK_THAT(refusal("export A=1"), Catch::Contains("leave out `export`"));
  CHECK_THAT(refusal("MASTER_ADDR=a"),
             Catch::Contains("f:2: MASTER_ADDR cannot be given: the launcher sets it") &&
                 Catch::Contains("--master_addr"));
}

TEST_CASE("files of variables count only if hosts are reached") {
  CHECK(variables_of_files({}).empty());
}
