#include "program_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/host.h"

#include "support/put_file.h"
#include "support/temporary_folder.h"

using namespace hgt;
namespace fs = std::filesystem;

namespace {

/// A build whose programs are shell scripts.
class Build {
 public:
  explicit Build(const std::string& program, const std::string& worker = "exit 0") {
    put("hgtrain", program);
    put("hgtrain-worker", worker);
  }
  void put(const std::string& name, const std::string& script) {
    put_file(folder_ / name, "#!/bin/sh\n" + script + "\n");
    chmod((folder_ / name).c_str(), 0755);
  }
  std::string program() const { return folder_ / "hgtrain"; }

 private:
  TemporaryFolder folder_;
};

/// Another host with a home of its own, on which the build lies elsewhere, or not at all.
class OtherHost {
 public:
  struct Answer {
    std::string output, errors;
    bool was_sent;
  };
  Answer start(const ProgramFiles& files, const std::string& program = "/nowhere/hgtrain",
               std::string payload = "", std::int64_t cache_kib = 1 << 20) {
    put_file(folder_ / "payload", payload.empty() ? *files.payload() : payload);
    const std::string script = start_script(files, "123", "agent", cache_kib);
    CHECK(script.find_first_of("!\n") == std::string::npos);  // csh would not pass these on
    put_file(folder_ / "script", script);
    const std::string line = fmt::format(
        "cd {0}; {2} env -u XDG_CACHE_HOME HOME={0} sh -c \"$(cat script)\" {1} "
        "< payload > output 2> errors",
        folder_.path(), program, before);
    [[maybe_unused]] const int status = std::system(line.c_str());
    Answer out{read("output"), read("errors"), false};
    out.was_sent = out.output.find("\n123-send\n") != std::string::npos;
    return out;
  }
  std::string home() const { return folder_.path(); }
  std::string cache() const { return folder_ / ".cache/hgtrain"; }
  std::vector<std::string> builds() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(cache()))
      out.push_back(entry.path().filename());
    return out;
  }

  std::string before;  ///< what its shell does first

 private:
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TemporaryFolder folder_;
};

const std::string kAgent = "echo agent of build 1 with $#";

}  // namespace

TEST_CASE("a host that has the build at its path starts that") {
  const Build build(kAgent);
  OtherHost host;
  const auto answer = host.start(ProgramFiles(build.program()), build.program());
  CHECK(answer.output == "\n123\nagent of build 1 with 1\n");
  CHECK(answer.errors == "");
  CHECK_FALSE(fs::exists(host.cache()));
}

TEST_CASE("files that are the launcher's own are not hashed, but those of a changed build are") {
  Build build(kAgent);
  OtherHost host;
  const std::string log = host.home() + "/hashed";
  put_file(host.home() + "/bin/sha256sum", "#!/bin/sh\ntouch " + log + "\nexit 1\n");
  chmod((host.home() + "/bin/sha256sum").c_str(), 0755);
  host.before = fmt::format("PATH={}/bin:$PATH", host.home());
  const ProgramFiles files(build.program());
  CHECK_FALSE(host.start(files, build.program()).was_sent);
  CHECK_FALSE(fs::exists(log));
  build.put("hgtrain-worker", "exit 1");
  CHECK(host.start(files, build.program()).was_sent);
  CHECK(fs::exists(log));
}

TEST_CASE("a host without the build, or with another, gets it once") {
  const Build build(kAgent);
  const Build other("echo agent of build 2");
  const ProgramFiles files(build.program());
  const bool has_other = GENERATE(false, true);
  const std::string program = has_other ? other.program() : "/nowhere/hgtrain";
  OtherHost host;
  const auto first = host.start(files, program);
  CHECK(first.was_sent);
  CHECK_THAT(first.output, Catch::EndsWith("\n123\nagent of build 1 with 1\n"));
  const auto second = host.start(files, program);
  CHECK(second.output == "\n123\nagent of build 1 with 1\n");
  CHECK(host.builds() == std::vector<std::string>{files.folder()});
}

TEST_CASE("a build whose CUDA module is another one is another build") {
  Build build(kAgent), other(kAgent);
  build.put("hgtrain_cuda.so", "1");
  other.put("hgtrain_cuda.so", "2");
  const ProgramFiles files(build.program());
  OtherHost host;
  CHECK(host.start(files, other.program()).was_sent);
  CHECK_FALSE(host.start(files, other.program()).was_sent);
  CHECK_FALSE(host.start(files, build.program()).was_sent);
  CHECK(ProgramFiles(other.program()).folder() != files.folder());
}

TEST_CASE("a damaged copy is replaced") {
  const Build build(kAgent);
  const ProgramFiles files(build.program());
  OtherHost host;
  host.start(files);
  const std::string copy = host.cache() + "/" + files.folder();
  SECTION("a program is another one") {
    put_file(copy + "/hgtrain-worker", "damaged");
  }
  SECTION("a library is missing") {
    put_file(copy + "/SHA256SUMS", std::string(64, '0') + "  lib/libx.so\n");
  }
  CHECK(host.start(files).was_sent);
  CHECK_FALSE(host.start(files).was_sent);
}

TEST_CASE("a program that does not arrive whole is not started, and leaves nothing") {
  const Build build(kAgent);
  const ProgramFiles files(build.program());
  std::string payload = *files.payload();
  SECTION("a bit is wrong") {
    payload[payload.find("build 1")] ^= 1;
  }
  SECTION("the stream ends early") {
    payload.resize(payload.size() / 2);
  }
  OtherHost host;
  const auto answer = host.start(files, "/nowhere/hgtrain", payload);
  CHECK(answer.output == "\n123-send\n");
  CHECK_THAT(answer.errors, Catch::Contains("did not arrive whole"));
  CHECK(host.builds().empty());
}

TEST_CASE("a host that cannot keep the program says so") {
  Build build(kAgent);
  build.put("hgtrain_cuda.so", std::string(1 << 20, 'x'));
  const ProgramFiles files(build.program());
  OtherHost host;
  SECTION("because the cache cannot be made") {
    put_file(host.home() + "/.cache", "a file");
    const auto answer = host.start(files);
    CHECK_FALSE(answer.was_sent);
    CHECK_THAT(answer.errors, Catch::Contains("the program cannot be sent: mkdir: "));
  }
  SECTION("because a file becomes too large, as on a full disk") {
    host.before = "trap '' XFSZ; ulimit -f 100;";
    CHECK_THAT(host.start(files).errors, Catch::Contains("the program cannot be sent to ") &&
                                             Catch::Contains("File too large"));
    CHECK(host.builds().empty());
  }
}

TEST_CASE("a host that cannot run the program says why") {
  const Build build(kAgent, "echo \"libc.so.6: version 'GLIBC_2.99' not found\" >&2; exit 1");
  const bool has_build = GENERATE(false, true);
  OtherHost host;
  const auto answer = has_build ? host.start(ProgramFiles(build.program()), build.program())
                                : host.start(ProgramFiles(build.program()));
  CHECK(answer.output == (has_build ? "" : "\n123-send\n"));
  CHECK(answer.errors ==
        "this host cannot run hgtrain: libc.so.6: version 'GLIBC_2.99' not found\n");
  if (!has_build) CHECK(host.builds().empty());
}

TEST_CASE(
    "the cache keeps the builds that were used last, up to its size, and always the one in use") {
  OtherHost host;
  std::vector<std::string> folders;
  for (int i = 0; i < 6; ++i) {
    Build build(fmt::format("echo build {}", i));
    build.put("hgtrain_cuda.so", std::string(1 << 20, 'x'));
    const ProgramFiles files(build.program());
    host.start(files, "/nowhere/hgtrain", "", 4500);
    folders.push_back(files.folder());
    // The builds before it are older by a day each.
    for (std::size_t k = 0; k < folders.size(); ++k)
      if (const fs::path path = host.cache() + "/" + folders[k]; fs::exists(path))
        fs::last_write_time(
            path, fs::file_time_type::clock::now() - std::chrono::hours(24 * (folders.size() - k)));
  }
  std::vector<std::string> kept = host.builds(), wanted(folders.end() - 4, folders.end());
  std::sort(kept.begin(), kept.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(kept == wanted);

  const Build build(kAgent);
  const ProgramFiles files(build.program());
  host.start(files, "/nowhere/hgtrain", "", 1);
  CHECK(host.builds() == std::vector<std::string>{files.folder()});
}

TEST_CASE("what an interrupted transfer has left in the cache goes with the next start") {
  const Build build(kAgent);
  const ProgramFiles files(build.program());
  OtherHost host;
  const auto leave = [&](const std::string& of_host, pid_t process) {
    const std::string name = fmt::format("0123.{}.{}", of_host, process);
    put_file(host.cache() + "/" + name + "/hgtrain", "half");
    return name;
  };
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  leave(host_name(), ended);
  const std::string running = leave(host_name(), getpid());
  const std::string elsewhere = leave("another-host", ended);
  host.start(files);
  std::vector<std::string> left = host.builds(), wanted{running, elsewhere, files.folder()};
  std::sort(left.begin(), left.end());
  std::sort(wanted.begin(), wanted.end());
  CHECK(left == wanted);
}

TEST_CASE("libraries travel with a program, but not glibc") {
  const Build build(kAgent);
  const std::string payload = *ProgramFiles(build.program()).payload();
  CHECK(payload.find(" lib/libc.so") == std::string::npos);
}

TEST_CASE("a program without a worker next to it is started as it is, or reported as missing") {
  TemporaryFolder folder;
  put_file(folder / "tool", "#!/bin/sh\necho tool\n");
  chmod((folder / "tool").c_str(), 0755);
  const ProgramFiles files(folder / "tool");
  CHECK(files.hashes().empty());
  OtherHost host;
  CHECK(host.start(files, files.program(), "x").output == "\n123\ntool\n");
  CHECK(host.start(files, "/nowhere/tool", "x").errors ==
        "there is no program /nowhere/tool on this host\n");
}
