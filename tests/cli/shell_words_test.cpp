#include "shell_words.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("to resume, the command line's own --resume is replaced") {
  const std::vector<std::string> expected{"hgtrain", "--config", "c.json", "--resume", "auto"};
  CHECK(resuming({"hgtrain", "--config", "c.json"}) == expected);
  CHECK(resuming({"hgtrain", "--resume", "x", "--config", "c.json"}) == expected);
  CHECK(resuming({"hgtrain", "--config", "c.json", "--resume=none"}) == expected);
  const std::vector<std::string> submission{"hgtrain", "submit", "slurm", "c.json"};
  CHECK(resuming(submission) == submission);
}

TEST_CASE("a flag is left out of a command line, but not of a program's behind --") {
  const std::vector<std::string> expected{"hgtrain", "launch", "--", "x", "--a", "1"};
  CHECK(without_flag({"hgtrain", "launch", "--a", "2", "--", "x", "--a", "1"}, "--a") == expected);
  CHECK(without_flag({"hgtrain", "--a=2", "launch", "--", "x", "--a", "1"}, "--a") == expected);
  CHECK(without_flag({"hgtrain", "--a"}, "--a") == std::vector<std::string>{"hgtrain"});
  CHECK(without_switches({"hgtrain", "--b", "launch", "--", "x", "--b"}, {"--a", "--b"}) ==
        std::vector<std::string>{"hgtrain", "launch", "--", "x", "--b"});
}

TEST_CASE("a script that is named as torchrun and deepspeed take it gets its dashes") {
  using Words = std::vector<std::string>;
  const auto with_dashes = [](const Words& words) {
    return hgt::with_dashes(words, [](const std::string& flag, const std::string&) {
      return flag == "-H" || flag == "--num_gpus" || flag == "--env";
    });
  };
  CHECK(with_dashes({"--nnodes=2", "-H", "f", "w.py", "--a", "b.py"}) ==
        Words{"--nnodes=2", "-H", "f", "--", "python3", "w.py", "--a", "b.py"});
  for (const char* flag : {"-m", "--module"})
    CHECK(with_dashes({"--num_gpus", "2", flag, "a.b", "-m", "c"}) ==
          Words{"--num_gpus", "2", "--", "python3", "-m", "a.b", "-m", "c"});
  for (const char* flag : {"--no_python", "--no-python"})
    CHECK(with_dashes({flag, "w.py", "x"}) == Words{"--", "w.py", "x"});
  CHECK(with_dashes({"--module", "--num_gpus", "2", "a.b", "--help"}) ==
        Words{"--num_gpus", "2", "--", "python3", "-m", "a.b", "--help"});
  CHECK(with_dashes({"--no_python", "--env", "A=w.py", "x"}) ==
        Words{"--env", "A=w.py", "--", "x"});
  CHECK(with_dashes({"-m", "a.b", "--", "-x", "--"}) ==
        Words{"--", "python3", "-m", "a.b", "-x", "--"});
  CHECK(with_dashes({"w.py", "--", "--x"}) == Words{"--", "python3", "w.py", "--x"});
  CHECK(with_dashes({"w.py", "a", "--", "--x"}) ==
        Words{"--", "python3", "w.py", "a", "--", "--x"});
  CHECK(with_dashes({"--no-python", "--", "./w.sh", "--", "x"}) ==
        Words{"--", "./w.sh", "--", "x"});
  CHECK_THROWS_AS(with_dashes({"--module", "--no_python", "x"}), Error);
  for (const Words& same : {Words{"--num_workers", "2", "--", "w.py"},
                            {"w.sh", "--", "x"},
                            {"-m", "--"},
                            {"w.sh"},
                            {"--env", "A=w.py"},
                            {"--env=w.py"},
                            {"-m", "--num_gpus", "2"},
                            {"-m"},
                            {}})
    CHECK(with_dashes(same) == same);
}

TEST_CASE("the values of --env are left out, but not a program's behind --") {
  CHECK(without_values_of_env({"launch", "--env", "A=b=c", "--env=D=e", "--env", "F", "--show=all",
                               "--", "--env", "G=h"}) ==
        std::vector<std::string>{"launch", "--env", "A=***", "--env=D=***", "--env", "F",
                                 "--show=all", "--", "--env", "G=h"});
}

TEST_CASE("a key gets another value at the end of a command line") {
  const std::vector<std::string> expected{"hgtrain", "--a.b", "2"};
  CHECK(with_key({"hgtrain"}, "a.b", "2") == expected);
  CHECK(with_key({"hgtrain", "--a.b", "1"}, "a.b", "2") == expected);
  CHECK(with_key({"hgtrain", "--a.b=1"}, "a.b", "2") == expected);
}
