#include "ssh_host.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/post.hpp>

#include "children.h"
#include "fake_ssh.h"
#include "stopped_tracer.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// A host whose program is a shell script that gets the word "agent".
struct SshRun {
  explicit SshRun(const std::string& program) {
    std::ofstream(folder / "program") << "#!/bin/sh\n" + program + "\n";
    chmod((folder / "program").c_str(), 0755);
    files.emplace(folder / "program");
    host.emplace(io, JobHost{.name = "far"}, *files,
                 SshHost::Events{[](std::size_t) {},
                                 [this](OwnedFd in, OwnedFd out) {
                                   output = std::move(in);
                                   input = std::move(out);
                                   io.stop();
                                 },
                                 [this](const std::string& reason) {
                                   why = reason;
                                   io.stop();
                                 }});
    io.run();
  }
  std::string read_all() {
    std::string out;
    char c;
    for (;;) {
      const ssize_t bytes = read(output.get(), &c, 1);
      if (bytes < 0 && errno == EAGAIN) continue;
      if (bytes <= 0) return out;
      out += c;
    }
  }

  TemporaryFolder folder;
  asio::io_context io;
  OwnedFd output, input;
  std::string why;
  std::optional<ProgramFiles> files;
  std::optional<SshHost> host;
};

}  // namespace

TEST_CASE("what the login shell prints first is not part of the stream") {
  const std::string shell = GENERATE("sh -c \"$last\"", "echo hello; sh -c \"$last\"",
                                     "printf 'no newline'; sh -c \"$last\"");
  const FakeSsh ssh(shell);
  SshRun run("printf 'I am an %s' $1");
  REQUIRE(run.why == "");
  CHECK(run.read_all() == "I am an agent");
}

TEST_CASE("a start-up file that waits for input gets empty lines, and nothing of the stream") {
  const TemporaryFolder folder;
  const FakeSsh ssh("read one; read two; echo \"$one,$two\" > " + (folder / "seen") +
                    "; sh -c \"$last\"");
  SshRun run("cat");
  REQUIRE(run.why == "");
  REQUIRE(write(run.input.get(), "a frame", 7) == 7);
  run.input = OwnedFd();
  CHECK(run.read_all() == "a frame");
  CHECK(contents(folder / "seen") == ",\n");
}

TEST_CASE("a host that cannot be used says why") {
  SECTION("ssh fails") {
    const FakeSsh ssh("echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255");
    CHECK(SshRun("true").why == "ssh: connect to host far port 22: Connection refused");
  }
  SECTION("the program is missing there") {
    const FakeSsh ssh("rm $(echo \"$last\" | grep -o \"/[^']*program\"); sh -c \"$last\"");
    CHECK_THAT(SshRun("true").why, Catch::Contains("there is no program /"));
  }
  SECTION("a start-up file prints without end") {
    const FakeSsh ssh("yes");
    CHECK_THAT(SshRun("true").why, Catch::Contains("more than 64 KiB"));
  }
  SECTION("its login shell refuses") {
    const FakeSsh ssh("echo 'This account is currently not available.'; exit 1");
    CHECK(SshRun("true").why ==
          "its login shell starts no program, and says: This account is currently not available.");
  }
  SECTION("its shell is killed while it takes the program") {
    const FakeSsh ssh(
        "echo \"$last\" | grep -o '[0-9a-f]\\{64\\}' | head -n 1 | sed s/$/-send/; "
        "head -c 1 > /dev/null; kill -9 $$");
    CHECK_THAT(SshRun("true").why, Catch::Contains("its shell ended while the program was sent"));
  }
  SECTION("ssh says nothing") {
    const FakeSsh ssh("exit 1");
    CHECK(SshRun("true").why == "ssh ended without a word");
  }
}

TEST_CASE("ssh leads a session of its own, and dies with its owner") {
  const FakeSsh ssh("echo pid=$$ >&2; sh -c \"$last\"; exec sleep 1000");
  std::optional<SshRun> run(std::in_place, "exit 0");
  std::string said;
  REQUIRE(eventually([&] { return (said = run->host->last_words()) != ""; }));
  const pid_t pid = std::atoi(said.c_str() + 4);
  CHECK(getsid(pid) == pid);
  run.reset();
  CHECK_FALSE(is_alive(pid));
}

TEST_CASE("a host's name is never an option of ssh, and nothing of the program needs quoting") {
  const auto words = ssh_command({.name = "far"}, ProgramFiles("/odd path/it's"), "123");
  REQUIRE(words.size() > 3);
  CHECK(words[words.size() - 3] == "--");
  CHECK(words[words.size() - 2] == "far");
  CHECK_THAT(words.back(), Catch::EndsWith(" '/odd path/it'\\''s'"));
}

TEST_CASE("the user and the port of a host are passed to ssh") {
  const JobHost host{.name = "far", .user = "me", .ssh_port = 2222};
  const auto words = ssh_command(host, ProgramFiles("/program"), "123");
  const auto dashes = std::find(words.begin(), words.end(), "--");
  REQUIRE(dashes - words.begin() > 4);
  CHECK(std::vector<std::string>(dashes - 4, dashes + 2) ==
        std::vector<std::string>{"-p", "2222", "-l", "me", "--", "far"});
}

TEST_CASE("a call that was closed can be destroyed by what is queued on the loop then") {
  const FakeSsh ssh("echo words >&2; exec sleep 1000");
  asio::io_context io;
  const ProgramFiles files("/bin/true");
  int events = 0;
  std::optional<SshHost> host;
  host.emplace(io, JobHost{.name = "far"}, files,
               SshHost::Events{[&](std::size_t) { ++events; }, [&](OwnedFd, OwnedFd) { ++events; },
                               [&](const std::string&) { ++events; }});
  asio::post(io, [&] {
    usleep(20'000);  // its words arrive
    host->close();
    asio::post(io, [&] { host.reset(); });
  });
  io.run();  // ends, because nothing waits for anything
  CHECK(events == 0);
  CHECK_FALSE(host);
}

TEST_CASE("what ssh has started, such as a ProxyCommand, ends with it and leaves no zombie") {
  const Subreaping subreaping;
  const FakeSsh ssh("sleep 1000 & echo pid=$! >&2; sh -c \"$last\"; exec sleep 1000");
  std::optional<SshRun> run(std::in_place, "exit 0");
  std::string said;
  REQUIRE(eventually([&] { return (said = run->host->last_words()) != ""; }));
  const pid_t proxy = std::atoi(said.c_str() + 4);
  CHECK(is_alive(proxy));
  run.reset();
  CHECK_FALSE(is_alive(proxy));
  CHECK_FALSE(children().contains(proxy));
}

TEST_CASE("a host that needs the program cannot be used if that can no longer be read here") {
  const TemporaryFolder folder;
  const std::string program = folder / "hgtrain", worker = folder / "hgtrain-worker";
  const FakeSsh ssh("rm " + program + " " + worker + "; mkdir " + worker +
                    "; HOME=" + folder.path() + " sh -c \"$last\"");
  for (const std::string& path : {program, worker}) std::ofstream(path) << "#!/bin/sh\n";
  asio::io_context io;
  const ProgramFiles files(program);
  std::string why;
  const SshHost host(io, JobHost{.name = "far"}, files,
                     {[](std::size_t) {}, [](OwnedFd, OwnedFd) {},
                      [&](const std::string& reason) {
                        why = reason;
                        io.stop();
                      }});
  io.run();
  CHECK_THAT(why, Catch::Contains(worker));
}
