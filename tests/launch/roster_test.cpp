#include "roster.h"

#include <filesystem>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "fake_ssh.h"
#include "full_pipe.h"
#include "launcher_process.h"

using namespace hgt;

// The hosts of these tests are all this machine: a program in place of ssh starts the agent here.

namespace {

const std::string kStartAgent =
    "case $host in a) n=1;; *) n=2;; esac; SSH_CONNECTION=\"10.0.0.9 1 10.0.0.$n 22\" "
    "exec sh -c \"$last\"";

}  // namespace

TEST_CASE("the ranks of several hosts are numbered host by host, and each knows its place") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher(
      {"--hosts", "a:2,b", "--", "/bin/sh", "-c",
       "echo $RANK $LOCAL_RANK of $LOCAL_WORLD_SIZE, $NODE_RANK of $CROSS_SIZE, "
       "$WORLD_SIZE $MASTER_ADDR:${MASTER_PORT:+port}"});
  CHECK(launcher.wait() == 0);
  for (const char* line :
       {"[r0] 0 0 of 2, 0 of 2, 3 10.0.0.1:port\n", "[r1] 1 1 of 2, 0 of 2, 3 10.0.0.1:port\n",
        "[r2] 2 0 of 1, 1 of 2, 3 10.0.0.1:port\n"})
    CHECK(has(launcher.out(), line));
}

TEST_CASE("hosts without the virtual environment of this shell are named before anything starts") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "venv/bin");
  std::ofstream(folder / "venv/pyvenv.cfg");
  std::filesystem::create_symlink("/bin/sh", folder / "venv/bin/sh");
  const FakeSsh ssh("rm -rf " + (folder / "venv") + "; " + kStartAgent);
  setenv("PATH", (folder / "venv/bin:" + std::getenv("PATH")).c_str(), 1);
  LauncherProcess launcher({"--hosts", "a,b", "--", "sh", "-c", "echo started"});
  CHECK(launcher.wait() == 2);
  CHECK(launcher.out() == "");
  for (const char* host : {"a", "b"})
    CHECK(has(launcher.err(),
              fmt::format("host {0} has no {1}/bin/sh: this shell takes sh from its virtual "
                          "environment {1}\n",
                          host, folder / "venv")));
}

TEST_CASE("hosts without the program are all named before anything starts") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher({"--hosts", "a,b", "--", "no-such-program"});
  CHECK(launcher.wait() == 2);
  for (const char* host : {"a", "b"})
    CHECK(has(launcher.err(),
              fmt::format("there is no program 'no-such-program' in PATH\n  on host {}\n", host)));
}

TEST_CASE("hosts without the data are all named before anything starts") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher(
      {"--own", "--hosts", "a,b", "--token_file", "/no/data", "--", LAUNCH_PROBE, "meet"});
  CHECK(launcher.wait() == 2);
  CHECK(launcher.out() == "");
  for (const char* host : {"a", "b"})
    CHECK(has(launcher.err(), fmt::format(" has no token file /no/data\n  on host {}\n", host)));
}

TEST_CASE("workers of ours on several hosts meet through the store") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher({"--own", "--hosts", "a:2,b:2", "--", LAUNCH_PROBE, "meet"});
  CHECK(launcher.wait() == 0);
  for (const char* line :
       {"[r0] 0 got value of 3\n", "[r3] 3 got value of 0\n", "[r1] 1 got value of 2\n"})
    CHECK(has(launcher.out(), line));
}

TEST_CASE("the first failure of any host is the verdict, and the ranks of all are stopped") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher({"--hosts", "a:2,b:2", "--", "/bin/sh", "-c",
                            "echo pid=$$; [ $RANK = 2 ] && exit 7; exec sleep 1000"});
  CHECK(launcher.wait() == 7);
  CHECK(launcher.failure()["rank"] == 2);
  CHECK(launcher.failure()["host"] == "b");
  CHECK(launcher.failure()["stopped_ranks"] == 3);
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("a launcher on the first host needs no ssh for that") {
  const FakeSsh ssh("[ $host = a ] && exit 255; " + kStartAgent);
  setenv("SSH_CONNECTION", "10.0.0.9 1 10.0.0.1 22", 1);  // that of the shell there
  LauncherProcess launcher(
      {"--on_first_host", "--hostfile", "s slots=2 spare\na slots=2\nb slots=1\n", "--", "/bin/sh",
       "-c",
       "echo $RANK $LOCAL_RANK of $LOCAL_WORLD_SIZE, $NODE_RANK of $CROSS_SIZE $MASTER_ADDR"});
  CHECK(launcher.wait() == 0);
  unsetenv("SSH_CONNECTION");
  for (const char* line : {"[r0] 0 0 of 2, 0 of 2 10.0.0.1\n", "[r1] 1 1 of 2, 0 of 2 10.0.0.1\n",
                           "[r2] 2 0 of 1, 1 of 2 10.0.0.1\n"})
    CHECK(has(launcher.out(), line));
}

TEST_CASE("a host that the launcher on the first one cannot use is named with it") {
  const FakeSsh ssh("echo 'b: Permission denied (publickey).' >&2; exit 255");
  LauncherProcess launcher({"--on_first_host", "--hosts", "a,b", "--", "/bin/echo", "started"});
  CHECK(launcher.wait() == 3);
  CHECK(launcher.out() == "");
  CHECK(has(launcher.err(), "host b cannot be used from a, where the launcher runs: "));
}

TEST_CASE("a host that is lost ends the job, and nothing is left there") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher(
      {"--hosts", "a:2,b:2", "--", "/bin/sh", "-c",
       "echo pid=$$; [ $RANK = 3 ] && kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); "
       "exec sleep 1000"});
  CHECK(launcher.wait() == 6);
  CHECK(launcher.failure()["host"] == "b");
  CHECK_FALSE(launcher.failure().contains("rank"));
  CHECK(has(launcher.err(),
            "error: host b is lost: its connection has ended: ssh on this machine "
            "was killed by SIGKILL\n"));  // that is the agent here
  CHECK(
      has(launcher.err(),
          "hint: the host is down, or its agent or connection was killed; with --max_restarts N"));
  CHECK(has(launcher.err(), "2 other ranks were stopped"));
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("a signal to the agent of a host counts for the whole job") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher({"--hosts", "a:2,b:2", "--", "/bin/sh", "-c",
                            "trap 'echo saved $RANK; exit 75' TERM; echo $$ >> \"$1\"; "
                            "while [ $(wc -l < \"$1\") -lt 4 ]; do sleep 0.01; done; "
                            "[ $RANK = 3 ] && kill -TERM $(cut -d' ' -f4 /proc/$PPID/stat); "
                            "while :; do sleep 0.01; done",
                            "sh", "@pids"});
  CHECK(launcher.wait() == 75);
  for (int rank = 0; rank < 4; ++rank) CHECK(has(launcher.out(), fmt::format("saved {}", rank)));
  CHECK(has(launcher.err(), "SIGTERM on host b counts for the whole job"));
  CHECK(has(launcher.err(), "stopped by SIGTERM on host b"));
}

TEST_CASE("a console that nobody reads delays no heartbeat to the hosts") {
  const FakeSsh ssh(
      "case $host in a) n=1;; *) n=2;; esac; "
      "SSH_CONNECTION=\"10.0.0.9 1 10.0.0.$n 22\" sh -c \"$last\"");
  FullPipe console;
  LauncherProcess launcher(
      {"--hosts", "a,b", "--lease", "5000", "--", "/bin/sh", "-c", "sleep 8; echo over"},
      console.writer());
  REQUIRE(eventually([&] { return !launcher.file("verdict.json").empty(); }));
  CHECK(has(console.read_all(), "over\n"));
  CHECK(launcher.wait() == 0);
}

TEST_CASE(
    "an agent that is stopped is killed by its guards, and a second Ctrl-C says who waits for it") {
  const FakeSsh ssh(
      "case $host in a) n=1;; *) n=2;; esac; "
      "SSH_CONNECTION=\"10.0.0.9 1 10.0.0.$n 22\" sh -c \"$last\"");  // no exec
  LauncherProcess launcher(
      {"--hosts", "a,b", "--lease", "5000", "--", "/bin/sh", "-c",
       "trap '' INT; echo pid=$$; agent=$(cut -d' ' -f4 /proc/$PPID/stat); "
       "[ $RANK = 0 ] || { echo $agent > \"$1\"; kill -STOP $agent; }; while :; do sleep 0.1; done",
       "sh", "@agent"});
  REQUIRE(launcher.prints("pid="));
  REQUIRE(eventually([&] { return has(launcher.file("agent"), "\n"); }));
  CHECK(eventually([&] {
    launcher.kill(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return has(launcher.err(), " s for host b, from which nothing has come for ");
  }));
  CHECK(launcher.wait() == 130);
  CHECK(all_end({std::stoi(launcher.file("agent"))}));
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("a job restarts on a host that was lost, when nothing of it can be left there") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher(
      {"--hosts", "a:2,b:2", "--restarts", "1", "--lease", "5000", "--", "/bin/sh", "-c",
       "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo again $RANK; "
       "for p in $(cat \"$1\"); do grep -qs 'State:.[^Z]' /proc/$p/status && echo left; "
       "done; exit 0; fi; "
       "echo $$ >> \"$1\"; while [ $(wc -l < \"$1\") -lt 4 ]; do sleep 0.01; done; "
       "[ $RANK = 3 ] && kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 1000",
       "sh", "@pids"});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(),
            "host b is lost: its connection has ended: ssh on this machine was killed by SIGKILL; "
            "restarting all 4 ranks (1 of 1)"));
  CHECK(has(launcher.err(), "after which no process of the job can be left on b"));
  for (const char* line : {"[r0] again 0\n", "[r3] again 3\n"}) CHECK(has(launcher.out(), line));
  CHECK_FALSE(has(launcher.out(), "left"));
}

TEST_CASE("a lost host is called once if the job is not to wait for it") {
  const TemporaryFolder folder;
  const FakeSsh ssh("mkdir " + (folder / "$host") + " || { echo down >&2; exit 255; }; " +
                    kStartAgent);
  LauncherProcess launcher(
      {"--hosts", "a,b", "--restarts", "1", "--lease", "5000", "--elastic_timeout", "0", "--",
       "/bin/sh", "-c",
       "[ $RANK = 1 ] && kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 1000"});
  CHECK(launcher.wait() == 6);
  CHECK(has(launcher.err(), "no restart: host b cannot be used: down"));
  CHECK(launcher.failure()["host"] == "b");
  CHECK(launcher.verdict()["restarts"] == 0);
}

TEST_CASE("a spare takes the ranks of a lost host, and no restart is counted for that") {
  const FakeSsh ssh(kStartAgent);
  LauncherProcess launcher(
      {"--hostfile", "a slots=1\nb slots=2\nspare slots=2 spare gpus=4,5\n", "--lease", "5000",
       "--", "/bin/sh", "-c",
       "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then "
       "echo again $RANK of $WORLD_SIZE, $NODE_RANK ${CUDA_VISIBLE_DEVICES-}; exit 0; fi; "
       "[ $RANK = 2 ] && kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 1000"});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(), "was killed by SIGKILL; restarting all 3 ranks\""));
  CHECK(has(launcher.err(), "host spare takes the ranks of host b"));
  for (const char* line :
       {"[r0] again 0 of 3, 0\n", "[r1] again 1 of 3, 1 4,5\n", "[r2] again 2 of 3, 1 4,5\n"})
    CHECK(has(launcher.out(), line));
}

TEST_CASE("a spare takes the ranks of a host that cannot be used at the start") {
  const FakeSsh ssh("[ $host = b ] && { echo \"no route to $host\" >&2; exit 255; }; " +
                    kStartAgent);
  LauncherProcess launcher({"--hostfile", "a slots=1\nc slots=1 spare\nb slots=1\n", "--",
                            "/bin/sh", "-c", "echo $RANK of $WORLD_SIZE"});
  CHECK(launcher.wait() == 0);
  const std::size_t why = launcher.err().find("host b cannot be used: no route to b");
  CHECK(why < launcher.err().find("host c takes the ranks of host b"));
  CHECK(has(launcher.out(), "[r1] 1 of 2\n"));
}

TEST_CASE("a spare that cannot be used keeps no job from starting") {
  const auto [fault, notice] = GENERATE(
      std::pair("{ echo \"no route to $host\" >&2; exit 255; }", "host c cannot be used: no route"),
      std::pair("ulimit -n 20", "host c cannot be used yet: on host c only 20 files may be open"));
  const FakeSsh ssh(fmt::format("[ $host = c ] && {}; {}", fault, kStartAgent));
  const TemporaryFolder folder;
  LauncherProcess launcher({"--hostfile", "a slots=1\nc slots=1 spare\n", "--", "/bin/sh", "-c",
                            "echo started; until [ -e \"$1\" ]; do sleep 0.01; done", "sh",
                            folder / "end"});
  CHECK(launcher.prints("started"));
  CHECK(eventually([&] { return has(launcher.err(), notice); }));
  std::ofstream(folder / "end");
  CHECK(launcher.wait() == 0);
}

TEST_CASE("a spare that is too small for the ranks of any other host is named") {
  const FakeSsh ssh(kStartAgent);
  const TemporaryFolder folder;
  LauncherProcess launcher(
      {"--hostfile", "a slots=3\nb slots=2\nc slots=1 spare\nd slots=2 spare\n", "--", "/bin/sh",
       "-c", "until [ -e \"$1\" ]; do sleep 0.01; done", "sh", folder / "end"});
  CHECK(eventually([&] {
    return has(launcher.err(),
               "host c is a spare that is too small: it has 1 slot, and each host "
               "that it could replace has more");
  }));
  std::ofstream(folder / "end");
  CHECK(launcher.wait() == 0);
  CHECK_FALSE(has(launcher.err(), "host d is a spare"));
}

namespace {

/// The first attempt ends when the agent of rank 1 is killed; the second only prints.
const char* const kLosesSecondHost =
    "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec echo again $RANK of $WORLD_SIZE; "
    "[ $RANK = 1 ] && kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); exec sleep 1000";

}  // namespace

TEST_CASE("the ranks of a host that does not come back are left out if enough hosts are left") {
  const TemporaryFolder folder;
  const FakeSsh ssh("mkdir " + (folder / "$host") + " || { echo down >&2; exit 255; }; " +
                    kStartAgent);
  LauncherProcess launcher({"--hosts", "a,b", "--min_hosts", "1", "--lease", "5000", "--",
                            "/bin/sh", "-c", kLosesSecondHost});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(), "running 1 rank on 1 of 2 hosts: a"));
  CHECK(launcher.out() == "again 0 of 1\n");
}

TEST_CASE("a host whose GPU driver never answers is given up, and its agent ends") {
  const TemporaryFolder folder;
  std::filesystem::copy(FAKE_NVML, folder / "libnvidia-ml.so.1");
  const FakeSsh ssh("[ $host = a ] || { export FAKE_GPUS=-2 LD_LIBRARY_PATH=" + folder.path() +
                    "; echo $$ > " + (folder / "agent") + "; }; " + kStartAgent);
  LauncherProcess launcher({"--hosts", "a,b", "--min_hosts", "1", "--lease", "1000", "--",
                            "/bin/sh", "-c", "echo ran $RANK"});
  CHECK(launcher.wait() == 0);
  CHECK(launcher.out() == "ran 0\n");
  CHECK(has(launcher.err(), "host b cannot be used: its GPU driver has not answered for 4 s"));
  CHECK(eventually([&] { return !is_alive(std::stoi(contents(folder / "agent"))); }));
}

TEST_CASE("a host that is back joins after the next checkpoint") {
  const TemporaryFolder folder;
  const FakeSsh ssh("[ $host = a ] || echo >> " + (folder / "calls") + "; n=$(wc -l < " +
                    (folder / "calls") + "); [ $host = a ] || [ $n != 2 ] || " +
                    "{ echo down >&2; exit 255; }; " + kStartAgent);
  LauncherProcess launcher({"--own", "--hosts", "a,b", "--min_hosts", "1", "--lease", "5000",
                            "--call_period", "1000", "--", LAUNCH_PROBE, "grow"});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(), "running 1 rank on 1 of 2 hosts: a"));
  CHECK(has(launcher.err(), "host b can be used now: it joins after the next checkpoint"));
  CHECK(has(launcher.err(), "stopping after this step, so that hosts can join"));
  CHECK(launcher.verdict()["world_size"] == 2);
  CHECK(launcher.verdict()["restarts"] == 1);
}

TEST_CASE("a job starts without hosts that cannot be used if enough are left") {
  const FakeSsh ssh("[ $host = b ] && { echo \"no route to $host\" >&2; exit 255; }; " +
                    kStartAgent);
  const std::string enough = GENERATE("1", "2");
  LauncherProcess launcher(
      {"--hosts", "a,b", "--min_hosts", enough, "--", "/bin/sh", "-c", "echo $WORLD_SIZE"});
  CHECK(launcher.wait() == (enough == "1" ? 0 : 3));
  CHECK(launcher.out() == (enough == "1" ? "1\n" : ""));
  CHECK(has(launcher.err(), "host b cannot be used: no route to b"));
}

TEST_CASE("if too few hosts are left, they are waited for, but not for ever") {
  const TemporaryFolder folder;
  const std::string down_for = GENERATE("2", "9");  // calls of b: the second, or all but the first
  const FakeSsh ssh("[ $host = a ] || echo >> " + (folder / "calls") + "; n=$(wc -l < " +
                    (folder / "calls") + "); [ $host = a ] || [ $n = 1 ] || [ $n -gt " + down_for +
                    " ] || { echo down >&2; exit 255; }; " + kStartAgent);
  const bool comes_back = down_for == "2";
  // A job that may not have fewer hosts waits only if it may restart.
  const auto [flag, value] = GENERATE(std::pair("--min_hosts", "2"), std::pair("--restarts", "1"));
  LauncherProcess launcher({"--hosts", "a,b", flag, value, "--elastic_timeout",
                            comes_back ? "100000" : "12000", "--lease", "5000", "--call_period",
                            "1000", "--", "/bin/sh", "-c", kLosesSecondHost});
  CHECK(launcher.wait() == (comes_back ? 0 : 6));
  const std::string err = launcher.err();
  CHECK(has(err, "too few hosts can be used: waiting up to "));
  CHECK(has(err, " for b (down); called again every 1 s"));
  CHECK(has(err, "no restart: host b cannot be used: down") != comes_back);
  CHECK(has(err, "--elastic_timeout SECONDS waits for longer") != comes_back);
  CHECK(has(err, "with --num_nodes MIN:MAX, a job continues") ==
        (!comes_back && flag == std::string("--restarts")));
  if (comes_back) CHECK(has(launcher.out(), "[r1] again 1 of 2\n"));
}

TEST_CASE("a host that is back stops no job while it lacks something, and joins once it has it") {
  const TemporaryFolder folder;
  const FakeSsh ssh("[ $host = a ] || echo >> " + (folder / "calls") + "; n=$(wc -l < " +
                    (folder / "calls") + "); [ $host = a ] || " +
                    "case $n in 2|3) ulimit -n 20;; esac; " + kStartAgent);
  LauncherProcess launcher({"--own", "--hosts", "a,b", "--min_hosts", "1", "--lease", "5000",
                            "--call_period", "1000", "--", LAUNCH_PROBE, "grow"});
  CHECK(launcher.wait() == 0);
  const std::string err = launcher.err();
  const std::string lacks = "host b cannot be used yet: on host b only 20 files may be open";
  CHECK(err.find(lacks) < err.find("running 1 rank on 1 of 2 hosts: a"));
  CHECK(err.find(lacks) == err.rfind(lacks));  // once, although it was called twice
  CHECK(err.find("host b can be used now: it joins after the next checkpoint") <
        err.find("stopping after this step, so that hosts can join"));
  CHECK(contents(folder / "calls") == "\n\n\n\n");
  CHECK(launcher.verdict()["restarts"] == 1);
}

TEST_CASE("a host that is away is called again although the job restarts more often") {
  const TemporaryFolder folder;
  const FakeSsh ssh("[ $host = b ] && mkdir " + (folder / "b") +
                    " 2> /dev/null && { echo down >&2; exit 255; }; " + kStartAgent);
  LauncherProcess launcher({"--hosts", "a,b", "--min_hosts", "1", "--restarts", "50",
                            "--call_period", "1500", "--", "/bin/sh", "-c",
                            "[ $WORLD_SIZE = 2 ] || { sleep 0.3; exit 1; }"});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(), "running 1 rank on 1 of 2 hosts: a"));
}

TEST_CASE("a host with which a job that ran without it cannot start is left out") {
  const TemporaryFolder folder;
  const FakeSsh ssh("[ $host = a ] || echo >> " + (folder / "calls") + "; n=$(wc -l < " +
                    (folder / "calls") + "); [ $host = a ] || [ $n != 2 ] || " +
                    "{ echo down >&2; exit 255; }; " + kStartAgent);
  LauncherProcess launcher({"--own", "--hosts", "a,b", "--min_hosts", "1", "--lease", "5000",
                            "--call_period", "1000", "--", LAUNCH_PROBE, "grow_in_vain"});
  CHECK(launcher.wait() == 0);
  CHECK(has(launcher.err(),
            "host b is left out for the rest of the job: the attempt to continue with it failed "
            "before a checkpoint: rank 1 failed: there are no tokens\"}"));
  CHECK(contents(folder / "calls") == "\n\n\n");
  CHECK(launcher.verdict()["restarts"] == 2);
  CHECK(launcher.verdict()["world_size"] == 1);
}

TEST_CASE("a job goes on without a host whose data differ, and from before it joined") {
  const TemporaryFolder folder;
  const auto [host, job, why] = GENERATE(table<std::string, std::string, std::string>(
      {{"b", "other_data", ""},
       {"a", "other_data_of_rank_0", "; of the two, host a joined later"}}));
  const FakeSsh ssh("[ $host != " + host + " ] || echo >> " + (folder / "calls") +
                    "; n=$(wc -l < " + (folder / "calls") + "); [ $host != " + host +
                    " ] || [ $n != 2 ] || { echo down >&2; exit 255; }; " + kStartAgent);
  std::ofstream(folder / "calls");
  LauncherProcess launcher({"--own", "--hosts", "a,b", "--min_hosts", "1", "--lease", "5000",
                            "--call_period", "1000", "--", LAUNCH_PROBE, job});
  CHECK(launcher.wait() == 0);
  const std::string err = launcher.err();
  const std::string left_out = "host " + host +
                               " is left out for the rest of the job: rank 1 failed: the data "
                               "differ" +
                               why + "\"}";
  CHECK(has(err, left_out));
  CHECK(err.find(left_out) <
        err.find("training goes back to joined, from before host " + host + " joined"));
  CHECK(has(err, "event -1 goes_back {\"checkpoint\":\"joined\"}"));
  CHECK(launcher.verdict()["world_size"] == 1);
}

TEST_CASE("a restart waits for a host that answers, but lacks something") {
  const TemporaryFolder folder;
  const std::string lacking_for = GENERATE("2", "9");  // calls of b: as many as that
  const FakeSsh ssh("[ $host = a ] || echo >> " + (folder / "calls") + "; n=$(wc -l < " +
                    (folder / "calls") + "); [ $host = a ] || [ $n = 1 ] || [ $n -gt " +
                    lacking_for + " ] || ulimit -n 20; " + kStartAgent);
  const bool gets_it = lacking_for == "2";
  LauncherProcess launcher({"--hosts", "a,b", "--restarts", "1", "--elastic_timeout",
                            gets_it ? "100000" : "12000", "--lease", "5000", "--call_period",
                            "1000", "--", "/bin/sh", "-c", kLosesSecondHost});
  CHECK(launcher.wait() == (gets_it ? 0 : 6));
  const std::string err = launcher.err();
  CHECK(has(err, "host b cannot be used yet: on host b only 20 files may be open at once"));
  CHECK(has(err, " for b (on host b only 20 files may be open at once"));
  CHECK(has(err, "no restart: host b cannot be used: on host b only 20 files") != gets_it);
  if (gets_it) CHECK(has(launcher.out(), "[r1] again 1 of 2\n"));
}

TEST_CASE("at most eight hosts are called at once") {
  const TemporaryFolder folder;
  const FakeSsh ssh("touch " + (folder / "call_$host") + "; ls " + folder.path() +
                    " | grep -c call_ >> " + (folder / "counts") + "; sleep 0.05; rm " +
                    (folder / "call_$host") + "; " + kStartAgent);
  std::string hosts = "a";
  for (int i = 1; i < 20; ++i) hosts += fmt::format(",h{}", i);
  LauncherProcess launcher({"--hosts", hosts, "--", "/bin/true"});
  CHECK(launcher.wait() == 0);
  std::istringstream counts(contents(folder / "counts"));
  int calls = 0;
  for (int count = 0; counts >> count; ++calls) CHECK(count <= 8);
  CHECK(calls == 20);
}

TEST_CASE("hosts that cannot be used are all named, and nothing is started") {
  const FakeSsh ssh("[ $host = a ] || { echo \"no route to $host\" >&2; exit 255; }; " +
                    kStartAgent);
  LauncherProcess launcher({"--hosts", "a,b,c", "--", "/bin/echo", "started"});
  CHECK(launcher.wait() == 3);
  CHECK(has(launcher.err(), "host b cannot be used: no route to b"));
  CHECK(has(launcher.err(), "host c cannot be used: no route to c"));
  CHECK(launcher.out() == "");
}

TEST_CASE("problems of hosts are reported before anything starts") {
  SECTION("two names of one machine, and a clock that is far off") {
    const FakeSsh ssh("[ $host = b ] && export FAKE_CLOCK=-7200 LD_PRELOAD=" FAKE_CLOCK "; " +
                      kStartAgent);
    LauncherProcess launcher({"--hosts", "a,b", "--", "/bin/sh", "-c", "echo $RANK"});
    CHECK(launcher.wait() == 0);
    CHECK(has(launcher.err(), "hosts a and b are one machine"));
    const std::string said = "clocks differ from this machine's: b ";
    const std::size_t at = launcher.err().find(said);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(launcher.err().substr(at + said.size())) == Approx(-7200).margin(60));
  }
  SECTION("limits that cannot hold the workers") {
    const FakeSsh ssh("[ $host = b ] && ulimit -n 30; " + kStartAgent);
    LauncherProcess launcher({"--hosts", "a:4,b:4", "--", "/bin/echo", "started"});
    CHECK(launcher.wait() == 3);
    CHECK(has(launcher.err(), "error: on host b only 30 files may be open at once, and 4 workers"));
    CHECK(launcher.out() == "");
  }
}

TEST_CASE("an address that other hosts cannot use is refused") {
  const FakeSsh ssh(GENERATE("SSH_CONNECTION='::1 1 ::1 22' exec sh -c \"$last\"",
                             "SSH_CONNECTION='1 1 127.0.1.1 22' exec sh -c \"$last\"",
                             "unset SSH_CONNECTION; exec sh -c \"$last\""));
  LauncherProcess launcher({"--hosts", "a,b", "--", "/bin/echo", "started"});
  CHECK(launcher.wait() == 2);
  CHECK(has(launcher.err(), "where other hosts cannot reach it"));
}

TEST_CASE("the settings of a host's network reach its ranks") {
  const FakeSsh ssh(kStartAgent);
  const std::vector<std::string> show{"/bin/sh", "-c",
                                      "echo $MASTER_ADDR ${HGTRAIN_ADDRESS-none} "
                                      "${NCCL_SOCKET_IFNAME-none} ${GLOO_SOCKET_IFNAME-none}"};
  const auto run = [&](const std::string& hostfile) {
    LauncherProcess launcher({"--hostfile", hostfile, "--", show[0], show[1], show[2]});
    launcher.wait();
    return launcher.out() + launcher.err();
  };
  const std::string addresses = run("a slots=1 addr=10.0.0.7\nb slots=1 addr=10.0.0.8\n");
  CHECK(has(addresses, "[r0] 10.0.0.7 10.0.0.7 none none\n"));
  CHECK(has(addresses, "[r1] 10.0.0.7 10.0.0.8 none none\n"));
  const std::string interfaces = run("a slots=1\nb slots=1 iface=lo\n");
  CHECK(has(interfaces, "[r0] 10.0.0.1 none none none\n"));
  CHECK(has(interfaces, "[r1] 10.0.0.1 127.0.0.1 =lo lo\n"));
  CHECK(has(run("a slots=1 iface=lo\n"), "127.0.0.1 127.0.0.1 =lo lo\n"));
  CHECK(has(run("a slots=1 iface=lo\nb slots=1\n"), "interface lo of host a is its loopback"));
  CHECK(has(run("a slots=1\nb slots=1 iface=no0\n"), "has no network interface no0"));
  CHECK(has(run("a slots=1 addr=127.0.0.1\nb slots=1\n"),
            "the workers look for host a at 127.0.0.1, where other hosts cannot reach it"));
}

TEST_CASE("a signal ends a job whose hosts have not answered yet") {
  const TemporaryFolder folder;
  const FakeSsh ssh("echo > " + (folder / "called") + "; exec sleep 1000");
  LauncherProcess launcher({"--hosts", "a,b", "--", "/bin/echo", "started"});
  REQUIRE(eventually([&] { return contents(folder / "called") != ""; }));
  for (const int ignored : {SIGUSR1, SIGUSR2}) {
    launcher.kill(ignored);
    REQUIRE(eventually([&] {
      return has(launcher.err(), fmt::format("SIG{} has no effect, because no rank runs now",
                                             sigabbrev_np(ignored)));
    }));
  }
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 128 + SIGTERM);
  CHECK(has(launcher.err(), "before all hosts had answered"));
}

TEST_CASE("a peer that is not an agent is not used") {
  const std::string says = GENERATE("echo hello", "exec cat /dev/zero");
  const FakeSsh ssh("nonce=$(echo \"$last\" | grep -oE '[0-9a-f]{64}'); echo; echo $nonce; " +
                    says);
  LauncherProcess launcher({"--hosts", "a", "--", "/bin/echo", "started"});
  CHECK(launcher.wait() == 3);
  CHECK(has(launcher.err(), "host a cannot be used: "));
}
