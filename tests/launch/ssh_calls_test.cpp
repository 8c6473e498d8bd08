#include "ssh_calls.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "fake_ssh.h"
#include "ssh_failure.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// Calls the host `far` until it has answered or failed, with short pauses.
struct CallsRun {
  CallsRun() {
    hosts[0].spec.name = "far";
    SshCalls calls(io, hosts, "/bin/true",
                   {[this](RosterHost&, OwnedFd, OwnedFd) { end("answered"); },
                    [this](RosterHost&, const std::string& why) { end(why); },
                    [this](const std::string& text) { notices.push_back(text); }},
                   std::chrono::milliseconds(1));
    calls.call_next();
    io.run();
  }
  void end(const std::string& how) {
    ended = how;
    io.stop();
  }

  asio::io_context io;
  std::vector<RosterHost> hosts{1};
  std::string ended;
  std::vector<std::string> notices;
};

/// ssh notes each call in `calls`; the first `failures` calls end with what ssh says in `text`.
std::string failing_ssh(const std::string& calls, int failures, const std::string& text) {
  return fmt::format(
      "echo >> {0}; [ $(wc -l < {0}) -gt {1} ] || {{ printf '{2}' >&2; exit 255; }}; "
      "exec sh -c \"$last\"",
      calls, failures, text);
}

std::size_t lines_in(const std::string& path) {
  return contents(path).size();
}

const char* const kReset = "kex_exchange_identification: read: Connection reset by peer\r\n";

}  // namespace

TEST_CASE("a host whose ssh server drops connections before the login is called again") {
  const TemporaryFolder folder;
  const std::string text = GENERATE(
      std::string(kReset),
      "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by "
      "10.0.0.1 port 22\r\nkex_exchange_identification: Connection closed by remote host\r\n");
  const FakeSsh ssh(failing_ssh(folder / "calls", 2, text));
  const CallsRun run;
  CHECK(run.ended == "answered");
  CHECK(lines_in(folder / "calls") == 3);
  REQUIRE(run.notices.size() == 1);
  CHECK_THAT(run.notices[0], Catch::Contains("host far is called again, up to 4 times"));
}

TEST_CASE("a server that goes on dropping connections is called a few times only") {
  const TemporaryFolder folder;
  const FakeSsh ssh(failing_ssh(folder / "calls", 100, kReset));
  const CallsRun run;
  CHECK(run.ended == "kex_exchange_identification: read: Connection reset by peer (5 times)");
  CHECK_THAT(hint_for_ssh({.name = "far"}, run.ended), Catch::Contains("MaxStartups"));
  CHECK(lines_in(folder / "calls") == 5);
}

TEST_CASE("a server that is slow to greet is called again with a longer limit, once") {
  const TemporaryFolder folder;
  const bool answers = GENERATE(true, false);
  const FakeSsh ssh("echo \"$*\" | grep -o 'ConnectTimeout=[0-9]*' >> " + (folder / "calls") +
                    "; case \"$*\" in *" + (answers ? "ConnectTimeout=4" : "ConnectTimeout") +
                    "*) echo 'Connection timed out during banner exchange' >&2; exit 255;; esac; "
                    "exec sh -c \"$last\"");
  const CallsRun run;
  CHECK(run.ended == (answers ? "answered" : "Connection timed out during banner exchange"));
  CHECK(contents(folder / "calls") == "ConnectTimeout=4\nConnectTimeout=10\n");
}

TEST_CASE("a failure that would be the same again ends the call") {
  const TemporaryFolder folder;
  const std::string text =
      GENERATE("Host key verification failed.", "Permission denied (publickey).",
               "ssh: Could not resolve hostname far: Name or service not known",
               "ssh: connect to host far port 22: Connection refused",
               "ssh: connect to host far port 22: Connection timed out");
  const FakeSsh ssh(failing_ssh(folder / "calls", 100, text));
  const CallsRun run;
  CHECK(lines_in(folder / "calls") == 1);
  CHECK(run.notices.empty());
}

TEST_CASE("if ssh cannot be started again, that call has failed; the first time is an error") {
  const FakeSsh ssh("/bin/rm \"$0\"; printf '" +
                    std::string("kex_exchange_identification: read: "
                                "Connection reset by peer") +
                    "' >&2; exit 255");
  std::string path = std::getenv("PATH");
  setenv("PATH", path.substr(0, path.find(':')).c_str(), 1);
  CHECK(CallsRun().ended == "cannot start ssh for host far: No such file or directory");
  CHECK_THROWS_WITH(CallsRun(), "cannot start ssh for host far: No such file or directory");
}
