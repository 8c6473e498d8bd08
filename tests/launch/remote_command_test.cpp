#include "hgtrain/launch/remote_command.h"

#include <fmt/format.h>

#include "fake_ssh.h"
#include "front.h"

using namespace hgt;

// The other host is this machine: a program in place of ssh starts the other end here. The command
// is a script of the shell.

namespace {

Front script(const std::string& text) {
  return Front({"--remotely", "far", "--", "/bin/sh", "-c", text});
}

}  // namespace

TEST_CASE("a command on another host has its output and exit code here") {
  const FakeSsh ssh("echo welcome; exec sh -c \"$last\"");
  Front front = script("echo out; echo err >&2; cat; pwd; echo $SENT; exit 7");
  CHECK(front.wait() == 7);
  CHECK(front.out() == "out\n/\nvariable\n");
  CHECK_THAT(front.err(), Catch::EndsWith("\nerr\n"));
}

TEST_CASE("nothing of a command is in a command line") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  Front front = script("tr '\\0' ' ' < /proc/$PPID/cmdline");  // the process that waits for it
  CHECK(front.wait() == 0);
  CHECK_THAT(front.out(), Catch::EndsWith(" agent --command "));
}

TEST_CASE("signals reach a command on another host") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  Front front = script("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done");
  REQUIRE(front.prints("ready"));
  front.kill(SIGTERM);
  CHECK(front.wait() == 3);
}

TEST_CASE("a command on another host ends with the process that has started it") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  Front front = script("echo pid=$$; exec sleep 1000");
  REQUIRE(front.prints("pid="));
  const auto pids = front.numbers("pid");
  front.kill(SIGKILL);
  CHECK(all_end(pids));
}

TEST_CASE("a command whose host cannot be used says why") {
  const FakeSsh ssh("echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255");
  Front front = script("true");
  CHECK(front.wait() == 3);
  CHECK(has(front.err(), "host far cannot be used: ssh: connect to host far"));
  CHECK(has(front.err(), "no ssh server listens on that port"));
}

TEST_CASE("a connection that ends before the command is an error") {
  const FakeSsh ssh("sh -c \"$last\"; exit 255");
  Front front = script("echo out");
  CHECK(front.wait() == 6);
  CHECK(front.out() == "out\n");
  CHECK(has(front.err(), "the connection to host far has ended before the command"));
}

TEST_CASE("a folder that the other host lacks is an error") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  Front front({"--remotely", "far", "--in", "/no/such/folder", "--", "/bin/true"});
  CHECK(front.wait() == 2);
  CHECK(has(front.err(), "host far has no folder /no/such/folder"));
}

TEST_CASE("a command that does not arrive whole is an error") {
  const TemporaryFolder folder;
  for (const char* input : {"/dev/null", "/dev/zero"}) {
    Process process(
        {"/bin/sh", "-c", fmt::format("exec {} agent --command < {}", LAUNCH_FRONT, input)},
        folder.path());
    CHECK(process.wait() == 6);
  }
}
