#include "hgtrain/launch/job_socket.h"

#include <atomic>
#include <chrono>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

#include <nlohmann/json.hpp>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/launch/job_client.h"

#include "job_messages.h"
#include "socket_address.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;
using namespace std::chrono_literals;

namespace {

/// A launcher that does nothing but answer.
class Launcher {
 public:
  explicit Launcher(const std::string& folder, const std::string& status = "running")
      : socket(folder), thread_([this, status] {
          while (!ends_) {
            socket.serve({[&] {
                            return nlohmann::json{{"state", status}};
                          },
                          [&](bool now) { stopped = now ? 2 : 1; }});
            ++rounds;
            std::this_thread::sleep_for(1ms);
          }
        }) {}
  ~Launcher() {
    ends_ = true;
    thread_.join();
  }
  /// It has looked at its socket twice more.
  bool goes_on() const {
    return eventually([this, until = rounds + 2] { return rounds >= until; });
  }
  JobSocket socket;
  std::atomic<int> stopped = 0;
  std::atomic<int> rounds = 0;

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

OwnedFd connected(const std::string& folder) {
  const OwnedFd opened(open_folder(folder));
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress address(opened.get());
  REQUIRE(connect(fd.get(), address.get(), address.size()) == 0);
  return fd;
}

bool is_closed(const OwnedFd& fd) {
  char byte;
  return recv(fd.get(), &byte, 1, 0) <= 0;
}

}  // namespace

TEST_CASE("a command asks for the status of a job, and asks it to stop") {
  const TemporaryFolder folder;
  Launcher launcher(folder.path());
  CHECK(launcher.socket.problem().empty());
  auto client = JobClient::connect(folder.path());
  REQUIRE(client);
  CHECK(client->status()->at("state") == "running");
  CHECK(client->status()->at("state") == "running");
  const bool now = GENERATE(false, true);
  client->stop(now);
  CHECK(launcher.stopped == (now ? 2 : 1));
}

TEST_CASE("the socket is for this user alone, and goes with its launcher") {
  const TemporaryFolder folder;
  {
    const Launcher launcher(folder.path());
    struct stat status {};
    REQUIRE(stat((folder / kSocketName).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK_FALSE(JobClient::connect(folder.path()));
  CHECK(access((folder / kSocketName).c_str(), F_OK) != 0);
}

TEST_CASE("another user is refused, even if the mode of the socket lets him in") {
  if (geteuid() != 0) return;
  const TemporaryFolder folder;
  const Launcher launcher(folder.path());
  chmod(folder.path().c_str(), 0755);
  chmod((folder / kSocketName).c_str(), 0666);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(1);
    const OwnedFd opened(open_folder(folder.path()));
    const OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress address(opened.get());
    if (connect(fd.get(), address.get(), address.size()) != 0) _exit(2);
    const std::string request = frame_of(AskStop{true});
    (void)!send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    _exit(is_closed(fd) ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(launcher.stopped == 0);
}

TEST_CASE("the path of the folder may be longer than the address of a socket") {
  const TemporaryFolder folder;
  std::string deep = folder.path();
  for (int i = 0; i < 3; ++i) {
    deep += "/" + std::string(100, 'x');
    REQUIRE(mkdir(deep.c_str(), 0777) == 0);
  }
  const Launcher launcher(deep);
  auto client = JobClient::connect(deep);
  REQUIRE(client);
  CHECK(client->status()->at("state") == "running");
}

TEST_CASE("the socket of a launcher that was killed is replaced, that of another one is not") {
  const TemporaryFolder folder;
  const pid_t killed = fork();
  if (killed == 0) {
    const JobSocket socket(folder.path());
    raise(SIGKILL);
  }
  waitpid(killed, nullptr, 0);
  REQUIRE(access((folder / kSocketName).c_str(), F_OK) == 0);
  CHECK_FALSE(JobClient::connect(folder.path()));

  const Launcher launcher(folder.path());
  CHECK(JobClient::connect(folder.path())->status()->at("state") == "running");
  const JobSocket second(folder.path());
  CHECK(second.problem() == "another hgtrain uses the folder");
  CHECK(second.fd() == -1);
}

TEST_CASE("a folder that has no room for a socket is a problem, not an error") {
  const TemporaryFolder folder;
  CHECK(JobSocket(folder / "missing").problem() ==
        "cannot open the folder: No such file or directory");
}

TEST_CASE("a client that sends no requests is closed") {
  const TemporaryFolder folder;
  const Launcher launcher(folder.path());
  const OwnedFd stranger = connected(folder.path());
  const std::string bytes =
      GENERATE(as<std::string>(), "GET / HTTP/1.1\r\n\r\n", std::string("\xff\xff\xff\x7f"),
               std::string(4, '\0'), encode_frame(MessageKind::kAskStop, "\x02"));
  REQUIRE(send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  CHECK(is_closed(stranger));
  CHECK(launcher.stopped == 0);
  CHECK(JobClient::connect(folder.path())->status());
}

TEST_CASE("a client that reads no answers costs no more than one, and delays nobody") {
  const TemporaryFolder folder;
  const Launcher launcher(folder.path(), std::string(1 << 20, 'x'));
  const OwnedFd greedy = connected(folder.path());
  const std::string request = frame_of(AskStatus{});
  // Requests that the launcher does not take fill the stream.
  while (send(greedy.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
  }
  CHECK(launcher.goes_on());
  CHECK(JobClient::connect(folder.path())->status());
}

TEST_CASE("what the console shows reaches all watchers, and a slow one learns how much it missed") {
  const TemporaryFolder folder;
  std::string seen;
  std::uint64_t taken = 0, missed = 0;
  std::atomic<bool> watches = false;
  std::thread watcher;
  const std::string block(100'000, 'x');
  {
    JobSocket socket(folder.path());
    const OwnedFd slow = connected(folder.path());
    const std::string request = frame_of(AskConsole{});
    REQUIRE(send(slow.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
    watcher = std::thread([&, client = JobClient::connect(folder.path())]() mutable {
      client->watch_console([&](bool is_error, std::uint64_t left_out, std::string_view text) {
        watches = true;
        missed += left_out;
        taken += text.size();
        if (!text.empty()) seen += (is_error ? "2" : "1") + std::string(text.substr(0, 3));
      });
    });
    while (!watches) socket.serve({});
    socket.show(false, "out");
    socket.show(true, "err");
    for (int i = 0; i < 50; ++i) socket.show(false, block);
    socket.serve({});
    // The slow one finds at most what waits for it and what its stream holds.
    std::vector<char> buffer(10 << 20);
    std::int64_t found = 0;
    while (const ssize_t bytes = recv(slow.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) {
      if (bytes < 0) break;
      found += bytes;
    }
    CHECK(found < 5'000'000);
    socket.serve({});
    socket.show(false, "end");
    const ssize_t bytes = recv(slow.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    CHECK(bytes > 0);
  }
  watcher.join();
  CHECK(seen.substr(0, 8) == "1out2err");
  CHECK(taken + missed == 50 * block.size() + std::string_view("outerrend").size());
}

TEST_CASE("if there are too many clients at once, the last ones get an error that says so") {
  const TemporaryFolder folder;
  const Launcher launcher(folder.path());
  std::vector<OwnedFd> clients;
  for (int i = 0; i < JobSocket::kMaxClients; ++i) clients.push_back(connected(folder.path()));
  CHECK_THROWS_WITH(JobClient::connect(folder.path())->status(),
                    "the launcher of " + folder.path() +
                        " gave no answer: too many commands are connected to it");
  clients.pop_back();
  CHECK(eventually([&] {
    try {
      return JobClient::connect(folder.path())->status().has_value();
    } catch (const Error&) {
      return false;
    }
  }));
}

TEST_CASE("a command that comes when no descriptor is left is refused, and so are later ones") {
  const TemporaryFolder folder;
  JobSocket socket(folder.path());
  for (int i = 0; i < 2; ++i) {
    const OwnedFd client = connected(folder.path());
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(OwnedFd(dup(client.get())).get());
    setrlimit(RLIMIT_NOFILE, &none);
    socket.serve({});
    setrlimit(RLIMIT_NOFILE, &before);
    std::string answer(256, '\0');
    CHECK(recv(client.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0);
    CHECK(has(answer, "too many files are open in it"));
  }
}
