#include "hgtrain/launch/remote_command.h"

#include <fmt/format.h>

#include "fake_ssh.h"
#include "launcher_process.h"

using namespace hgt;

// The other host is this machine: a program in place of ssh starts the other end here. The command
// is a script of the shell.

namespace {

LauncherProcess remote_script(const std::string& text) {
  return LauncherProcess({"--remotely", "far", "--", "/bin/sh", "-c", text});
}

}  // namespace

TEST_CASE("a command on another host has its output and exit code here") {
  const FakeSsh ssh("echo welcome; exec sh -c \"$last\"");
  LauncherProcess launcher = remote_script("echo out; echo err >&2; cat; pwd; echo $SENT; exit 7");
  CHECK(launcher.wait() == 7);
  CHECK(launcher.out() == "out\n/\nvariable\n");
  CHECK_THAT(launcher.err(), Catch::EndsWith("\nerr\n"));
}

TEST_CASE("nothing of a command is in a command line") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  LauncherProcess launcher =
      remote_script("tr '\\0' ' ' < /proc/$PPID/cmdline");  // the process that waits for it
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.out(), Catch::EndsWith(" agent --command "));
}

TEST_CASE("a command on another host needs the virtual environment of its shell there") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  const auto ends = [](const std::string& program) {
    LauncherProcess launcher(
        {"--remotely", "far", "--program", program, "--", "/bin/sh", "-c", "echo started"});
    const int code = launcher.wait();
    return std::to_string(code) + launcher.out() + launcher.err();
  };
  CHECK_THAT(ends("/bin/sh"), Catch::StartsWith("0started\n"));
  const std::string refused = ends("/no/venv/bin/sh");
  CHECK(refused.front() == '2');
  CHECK(has(refused,
            "launcher: error: host far has no /no/venv/bin/sh: this shell takes sh from its "
            "virtual environment /no/venv\n"));
}

TEST_CASE("signals reach a command on another host") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  LauncherProcess launcher =
      remote_script("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done");
  REQUIRE(launcher.prints("ready"));
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 3);
}

TEST_CASE("a command on another host ends with the process that has started it") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  LauncherProcess launcher = remote_script("echo pid=$$; exec sleep 1000");
  REQUIRE(launcher.prints("pid="));
  const auto pids = launcher.numbers("pid");
  launcher.kill(SIGKILL);
  CHECK(all_end(pids));
}

TEST_CASE("a command whose host cannot be used says why") {
  const FakeSsh ssh("echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255");
  LauncherProcess launcher = remote_script("true");
  CHECK(launcher.wait() == 3);
  CHECK(has(launcher.err(), "host far cannot be used: ssh: connect to host far"));
  CHECK(has(launcher.err(), "no ssh server listens on that port"));
}

TEST_CASE("a connection that ends before the command is an error") {
  const FakeSsh ssh("sh -c \"$last\"; exit 255");
  LauncherProcess launcher = remote_script("echo out");
  CHECK(launcher.wait() == 6);
  CHECK(launcher.out() == "out\n");
  CHECK(has(launcher.err(), "the connection to host far has ended before the command"));
}

TEST_CASE("a folder that the other host lacks is an error") {
  const FakeSsh ssh("exec sh -c \"$last\"");
  LauncherProcess launcher({"--remotely", "far", "--in", "/no/such/folder", "--", "/bin/true"});
  CHECK(launcher.wait() == 2);
  CHECK(has(launcher.err(), "host far has no folder /no/such/folder"));
}

TEST_CASE("a command that does not arrive whole is an error") {
  const TemporaryFolder folder;
  for (const char* input : {"/dev/null", "/dev/zero"}) {
    Process process({"/bin/sh", "-c", fmt::format("exec {} agent --command < {}", LAUNCHER, input)},
                    folder.path());
    CHECK(process.wait() == 6);
  }
}
