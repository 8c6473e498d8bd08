#include "program.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a program is looked up as a shell does, and a wrong one is refused with the reason") {
  const TemporaryFolder folder;
  std::ofstream(folder / "tool") << "#!/bin/sh\n";
  std::ofstream(folder / "script.py") << "print()\n";
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::permissions(folder / "tool", std::filesystem::perms::owner_all);
  const std::string path = "/nowhere:" + folder.path() + ":/usr/bin:/bin";

  CHECK(find_program("tool", path) == folder / "tool");
  CHECK(find_program("sh", path).find("bin/sh") != std::string::npos);
  CHECK(find_program(folder / "tool", "") == folder / "tool");
  CHECK_THROWS_WITH(find_program("tool", "/usr/bin"), Catch::Contains("no program 'tool' in PATH"));
  CHECK_THROWS_WITH(find_program(folder / "none", path), Catch::Contains("there is no program"));
  std::filesystem::create_symlink("python3", folder / "python");
  std::filesystem::create_symlink("/nowhere/python3", folder / "python3");
  CHECK_THROWS_WITH(find_program(folder / "python", path),
                    folder / "python is a link to /nowhere/python3, which is not there");
  CHECK_THROWS_WITH(find_program(folder / "folder", path), Catch::Contains("is not a program"));
  CHECK_THROWS_WITH(find_program(folder / "script.py", path), Catch::Contains("is not executable"));
  CHECK_THROWS_AS(find_program("script.py", path), Error);
  CHECK_THROWS_WITH(find_program("..", "/nowhere"), Catch::Contains("is not a program"));
  const auto hint = [&](const char* file, const char* text) {
    std::ofstream(folder / file) << text;
    try {
      return find_program(folder / file, path);
    } catch (const Error& e) {
      return e.hint();
    }
  };
  CHECK_THAT(hint("a.py", "print()\n"),
             Catch::Contains("interpreter: python3 " + (folder / "a.py")));
  CHECK_THAT(hint("a.py", "print()\n"), !Catch::Contains("chmod"));
  CHECK_THAT(hint("b.py", "#!/usr/bin/env ruby\n"), Catch::Contains("interpreter: ruby "));
  CHECK_THAT(hint("c", "#! /bin/sh -e\n"), Catch::Contains("interpreter: /bin/sh -e "));
  CHECK_THAT(hint("e f", ""), Catch::Contains("`chmod +x '" + (folder / "e f") + "'`"));
  CHECK_THAT(hint("e f.py", ""), Catch::EndsWith("python3 '" + (folder / "e f.py") + "'"));
  CHECK_THAT(hint("d",
                  "\x7f"
                  "ELF"),
             !Catch::Contains("interpreter"));
  CHECK_THROWS_AS(find_program("", path), Error);
  for (const std::string command : {"python3 train.py", "./train.py 3"}) {
    try {
      find_program(command, path);
    } catch (const Error& e) {
      CHECK_THAT(e.hint(), Catch::StartsWith("leave out the quotes"));
    }
    CHECK_THROWS_AS(find_program(command, path), Error);
  }
}

TEST_CASE("a script without a first line gets the one of its language") {
  CHECK_THAT(first_line_hint("./train.py"),
             Catch::Contains("#!/usr/bin/env python3") && Catch::EndsWith("python3 ./train.py"));
  CHECK_THAT(first_line_hint("start"), Catch::EndsWith("#!/bin/sh"));
}

TEST_CASE("the program of a virtual environment is known, also if a script names it") {
  const TemporaryFolder folder;
  const auto make = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << text;
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
  };
  for (const char* root : {"venv", "conda", "usr"}) make(std::string(root) + "/bin/python3", "");
  make("venv/pyvenv.cfg", "");
  make("conda/conda-meta/history", "");
  make("script.py", "#!/usr/bin/env python3\nprint()\n");
  make("split.py", "#! /usr/bin/env -S  python3 -u\nprint()\n");
  make("tool.sh", "#!/bin/sh\n");
  const auto found = [&](const std::string& program, const char* root) {
    JobSpec spec;
    spec.argv = [&](int) { return std::vector<std::string>{program}; };
    spec.env["PATH"] = folder / root + "/bin:" + folder.path();
    return program_of_environment(spec);
  };
  for (const std::string& program : {std::string("python3"), folder / "script.py",
                                     std::string("script.py"), folder / "split.py"}) {
    CHECK(found(program, "venv") == folder / "venv/bin/python3");
    CHECK(found(program, "conda") == folder / "conda/bin/python3");
    CHECK(found(program, "usr") == "");
  }
  for (const std::string& program : {folder / "tool.sh", std::string("tool.sh"),
                                     std::string("none"), folder / "usr/bin/python3"})
    CHECK(found(program, "venv") == "");
}
