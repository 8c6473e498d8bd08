#include "hgtrain/base/shell.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a command line can be typed again") {
  CHECK(shell_line({"hgtrain", "--config", "my config.json", "--env", "A=it's", ""}) ==
        "hgtrain --config 'my config.json' --env 'A=it'\\''s' ''");
}

TEST_CASE("a line of the shell gives its exit status and what it printed") {
  CHECK(run_shell("echo seen; echo unseen >&2; exit 3 2>/dev/null") ==
        std::pair(3, std::string("seen\n")));
  CHECK(shell_word("a b") == "'a b'");
  CHECK(run_shell(shell_line({"echo", "it's"})) == std::pair(0, std::string("it's\n")));
  CHECK(run_shell("kill -9 $$").first == -1);
}
