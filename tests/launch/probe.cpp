// A worker of ours that does what its first argument says.
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/control.h"
#include "hgtrain/wire/messages.h"
#include "hgtrain/wire/phases.h"

namespace {

using namespace hgt;
using namespace std::chrono_literals;

int number(const char* name) {
  return std::atoi(std::getenv(name));
}

/// What arrived on the channel, for a main thread that waits for it.
struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::string last;

  void put(const std::string& what) {
    const std::lock_guard lock(mutex);
    last = what;
    changed.notify_all();
  }
  bool has(const std::string& what) {
    const std::lock_guard lock(mutex);
    return last == what;
  }
  void wait_for(const std::string& what) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return last == what; });
  }
};

/// The agent: the parent of the guard that is this process's parent.
pid_t agent() {
  std::ifstream stat("/proc/" + std::to_string(getppid()) + "/stat");
  std::string word;
  for (int i = 0; i < 4; ++i) stat >> word;
  return std::stoi(word);
}

/// Bytes on the control channel that are not what a worker sends.
void write_raw(const std::string& bytes) {
  (void)!send(number("HGTRAIN_CONTROL_FD"), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  for (;;) pause();
}

int run(const std::string& what, ControlChannel& channel, Inbox& inbox) {
  const int rank = number("RANK");
  const int world = number("WORLD_SIZE");
  Progress& progress = channel.progress();
  if (what == "meet") {
    channel.set("rank" + std::to_string(rank), "value of " + std::to_string(rank));
    for (int other = 0; other < world; ++other)
      std::cout << rank << " got " + channel.get("rank" + std::to_string(other), 100s) + "\n";
  } else if (what == "stop") {
    channel.send("started", {{"step", 0}});
    inbox.wait_for("stop");
    return kExitStoppedEarly;
  } else if (what == "connect") {  // rank 0 alone has connected
    if (rank == 1) progress.phase = kConnectingPhase;
    channel.get("never", 100s);
  } else if (what == "checkpoint") {
    channel.send("started", {{"step", 0}});
    inbox.wait_for("checkpoint");
  } else if (what == "progress") {  // the first three attempts save a step each, then all fail
    const int attempt = number("TORCHELASTIC_RESTART_COUNT");
    channel.send("started", {{"step", attempt}});
    if (attempt < 3) channel.send("checkpoint", {{"step", attempt + 1}});
    channel.flush();
    std::raise(SIGKILL);
  } else if (what ==
             "grow") {  // the second rank's host is lost at once; then a step is saved every 0.1 s
    const int attempt = number("TORCHELASTIC_RESTART_COUNT");
    if (attempt == 0 && rank == 1) kill(agent(), SIGKILL);
    if (attempt == 2) return 0;
    channel.send("started", {{"step", attempt}});
    for (int step = 1; !inbox.has("stop"); ++step) {
      std::this_thread::sleep_for(100ms);
      if (attempt == 1) channel.send("checkpoint", {{"step", step}});
    }
    return kExitStoppedEarly;
  } else if (what == "grow_in_vain") {  // with the second rank, whose host is back, it cannot start
    const int attempt = number("TORCHELASTIC_RESTART_COUNT");
    if (attempt == 0 && rank == 1) kill(agent(), SIGKILL);
    channel.send("started", {{"step", attempt}});
    if (attempt == 2 && rank == 1) throw Error(ErrorKind::kConfig, "there are no tokens");
    for (int step = 1; attempt < 3 && !inbox.has("stop") && !inbox.has("abort"); ++step) {
      std::this_thread::sleep_for(100ms);
      if (attempt == 1) channel.send("checkpoint", {{"step", step}});
    }
    if (attempt == 3) std::this_thread::sleep_for(2500ms);  // hosts are called every second
    return attempt == 3 ? 0 : kExitStoppedEarly;
  } else if (what.starts_with("other_data")) {  // of the host that joins; those of rank 0's count
    const int attempt = number("TORCHELASTIC_RESTART_COUNT");
    if (attempt == 0 && rank == (what.ends_with("rank_0") ? 0 : 1)) kill(agent(), SIGKILL);
    if (attempt >= 2 && world == 1) return 0;
    if (rank == 0)
      channel.send("started", {{"step", attempt}, {"from", world == 1 ? "" : "joined"}});
    if (attempt > 0 && world == 2) {
      if (rank == 0) channel.send("checkpoint", {{"step", 1'000'000}, {"path", "later"}});
      if (rank == 0) channel.set("saved", "");
      if (rank == 0) inbox.wait_for("abort");
      channel.get("saved", 100s);
      channel.send("data_differ", nlohmann::json::object());
      throw Error(ErrorKind::kData, "the data differ");
    }
    for (int step = 1; !inbox.has("stop") && !inbox.has("abort"); ++step) {
      std::this_thread::sleep_for(100ms);
      if (world == 1) channel.send("checkpoint", {{"step", step}, {"path", "joined"}});
    }
    return kExitStoppedEarly;
  } else if (what == "join") {  // alone, the rank saves a step every 0.1 s; the fourth attempt ends
    const int attempt = number("TORCHELASTIC_RESTART_COUNT");
    std::cout << "attempt " << attempt << ", rank " << rank << " of " << world << std::endl;
    if (attempt == 3) return 0;
    channel.send("started", {{"step", 1000 * attempt}});
    for (int step = 1000 * attempt + 1; !inbox.has("stop") && !inbox.has("abort"); ++step) {
      std::this_thread::sleep_for(100ms);
      if (world == 1) channel.send("checkpoint", {{"step", step}});
    }
    return kExitStoppedEarly;
  } else if (what == "last_words") {
    channel.send("notice", {{"text", "farewell"}});
    channel.flush();
    std::raise(SIGKILL);
  } else if (what == "malformed") {
    channel.send("notice", {{"text", 3}});
    channel.flush();
  } else if (what == "fail") {  // rank 1 fails, the others notice that a peer is gone
    progress.step = 41;
    if (rank == 1)
      throw Error(ErrorKind::kData, "the token file is damaged", "prepare it again")
          .in("train.bin");
    channel.get("never", 100s);
  } else if (what == "blame") {  // everybody blames a peer; rank 1, which is at fault, is the last
    if (rank != 1) throw Error(ErrorKind::kPeer, "connection reset");
    inbox.wait_for("abort");
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make it an abort
    std::raise(SIGSEGV);
  } else if (what == "hang" ||
             what == "timeout") {  // rank 1 never enters the collective that the others wait in
    progress.phase = rank == 1 ? "data" : "all_reduce";
    progress.collective = rank == 1 ? 7 : 8;
    if (what == "timeout" && rank == 1) channel.set("stands still", "");
    if (what == "timeout" && rank == 0) {
      channel.get("stands still", 100s);
      std::this_thread::sleep_for(5s);
      throw Error(ErrorKind::kPeer, "all_reduce 8 timed out");
    }
    while (what == "timeout") pause();
    inbox.wait_for("abort");
  } else if (what == "flood") {
    const std::string block(1 << 16, '\n');
    for (;;) std::cout << block << std::flush;
  } else if (what == "flood_of_one") {  // 200 MB of rank 1
    channel.send("started", {{"step", 0}});
    const std::string block((1 << 16) - 1, 'x');
    for (int i = 0; rank == 1 && i < 3200; ++i) std::cout << block << '\n' << std::flush;
    channel.send("notice", {{"text", "printed all"}});
    inbox.wait_for("stop");
    return kExitStoppedEarly;
  } else if (what == "freeze") {
    channel.send("started", {{"step", 0}});
    channel.flush();
    if (rank == 1) std::raise(SIGSTOP);
    for (int i = 1;; ++i) {
      progress.step = i;
      std::this_thread::sleep_for(10ms);
    }
  }
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "garbage") write_raw("GET / HTTP/1.1\r\n");
  if (what == "oversized") write_raw(std::string("\x00\x00\x00\x01", 4));
  if (what == "forged")
    write_raw(encode(Hello{number("RANK"), getpid(), kProtocolVersion, JobKey::random()}));
  Inbox inbox;
  const auto channel = ControlChannel::open(
      {[&] { inbox.put("stop"); },
       [&] { inbox.put("checkpoint"); },
       [&](const std::string&) { inbox.put("abort"); },
       {},
       [] { std::cerr << "asked for stacks of " << number("RANK") << std::endl; }});
  try {
    return run(what, *channel, inbox);
  } catch (const Error& e) {
    channel->send("failed", failed_body(e));
    channel->flush();
    return e.exit_code();
  }
}
