#include "hgtrain/launch/job_socket.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/owned_fd.h"
#include "hgtrain/wire/frame.h"

#include "job_messages.h"
#include "socket_address.h"

namespace hgt {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// A descriptor to give up if this process has no more of them.
OwnedFd spare_descriptor() {
  return OwnedFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/// This user's own commands, and those of root.
bool may_ask(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

class JobSocket::Server {
 public:
  explicit Server(const std::string& folder) : folder_(open_folder(folder)) {
    if (folder_.get() < 0) fail("cannot open the folder");
    if (listener_.get() < 0 || events_.get() < 0) fail("no socket");
    bind_it();
    if (listen(listener_.get(), SOMAXCONN) != 0) fail("cannot listen");
    watch(listener_.get(), EPOLL_CTL_ADD, EPOLLIN);
  }
  ~Server() {
    unlinkat(folder_.get(), kSocketName, 0);
    wait_for_readers();
  }

  int fd() const { return events_.get(); }

  void serve(const Answers& answers) {
    std::array<epoll_event, kMaxClients + 1> ready;
    const int count =
        epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), /*timeout=*/0);
    for (int i = 0; i < count; ++i) {
      const int fd = ready[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get())
        accept_next();
      else if (const auto client = clients_.find(fd); client != clients_.end())
        client->second.is_open = client->second.is_open && serve_client(client->second, answers);
    }
    std::erase_if(clients_, [](const auto& client) { return !client.second.is_open; });
  }

  /// An answer may print, so that this is called while a client is served: none is erased here.
  void show(bool is_error, std::string_view text) {
    for (auto& [fd, client] : clients_)
      if (client.watches_console) client.is_open = client.is_open && show(client, is_error, text);
  }

 private:
  /// A client sends its next request after it has taken the answer to the one before, so no more
  /// than one answer waits.
  struct Client {
    OwnedFd fd;
    FrameReader requests{kMaxAskBytes};
    std::string answer = {};
    std::size_t sent = 0;
    bool watches_console = false;
    bool is_open = true;
    std::uint64_t left_out = 0;  // bytes of the console that it misses
    bool has_unsent() const { return sent < answer.size(); }
  };

  /// If nobody listens to a socket that is there, its launcher was killed.
  void bind_it() {
    const SocketAddress address(folder_.get());
    fchmod(listener_.get(), 0600);  // the mode of the file that bind() makes
    if (bind(listener_.get(), address.get(), address.size()) == 0) return;
    if (errno != EADDRINUSE) fail("cannot make control.sock");
    const OwnedFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(probe.get(), address.get(), address.size()) == 0 || errno != ECONNREFUSED)
      throw Error(ErrorKind::kConfig, "another hgtrain uses the folder");
    unlinkat(folder_.get(), kSocketName, 0);
    if (bind(listener_.get(), address.get(), address.size()) != 0) fail("cannot make control.sock");
  }

  void watch(int fd, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(events_.get(), operation, fd, &event);
  }

  OwnedFd accept() const {
    return OwnedFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  void accept_next() {
    OwnedFd fd = accept();
    if (fd.get() < 0 && (errno == EMFILE || errno == ENFILE)) return refuse_without_descriptor();
    if (fd.get() < 0) return;
    if (!may_ask(fd.get())) return log_warning("control.sock: refused another user's command");
    if (clients_.size() >= kMaxClients) return refuse(fd, "too many commands are connected to it");
    const int number = fd.get();
    clients_.emplace(number, Client{std::move(fd)});
    watch(number, EPOLL_CTL_ADD, EPOLLIN);
  }

  /// A client that stayed in the queue would wake the loop again and again.
  void refuse_without_descriptor() {
    spare_ = OwnedFd();
    refuse(accept(), "too many files are open in it");
    spare_ = spare_descriptor();
  }

  static void refuse(const OwnedFd& fd, const std::string& why) {
    const std::string refusal = frame_of(JobRefusal{why});
    ::send(fd.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  /// False if the client is of no further use.
  bool serve_client(Client& client, const Answers& answers) {
    try {
      if (client.has_unsent()) {
        if (!send(client)) return false;
      } else if (!receive(client)) {
        return false;
      }
      while (!client.has_unsent()) {
        const auto frame = client.requests.next();
        if (!frame) break;
        client.watches_console |= frame->kind == MessageKind::kAskConsole;
        client.answer = answer_to(*frame, answers);
        client.sent = 0;
        if (!send(client)) return false;
      }
    } catch (const Error& e) {
      log_warning("control.sock: {}", e.message());
      return false;
    }
    watch_again(client);
    return true;
  }

  void watch_again(const Client& client) {
    watch(client.fd.get(), EPOLL_CTL_MOD, client.has_unsent() ? EPOLLOUT : EPOLLIN);
  }

  /// False if the client is of no further use.
  bool show(Client& client, bool is_error, std::string_view text) {
    if (client.answer.size() - client.sent > kMaxWaitingBytes) {
      client.left_out += text.size();
      return true;
    }
    return queue(client,
                 ConsoleText{is_error, std::exchange(client.left_out, 0), std::string(text)});
  }

  /// False if the client is of no further use.
  bool queue(Client& client, const ConsoleText& text) {
    const bool had_unsent = client.has_unsent();
    client.answer.erase(0, std::exchange(client.sent, 0));
    client.answer += frame_of(text);
    if (had_unsent) return true;
    if (!send(client)) return false;
    if (client.has_unsent()) watch_again(client);
    return true;
  }

  /// Waits for them as long as one of them takes something within 100 ms.
  void wait_for_readers() {
    for (auto& [fd, client] : clients_)
      if (client.watches_console)
        queue(client, ConsoleText{.left_out = client.left_out, .is_last = true});
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (std::chrono::steady_clock::now() < until) {
      std::vector<pollfd> readers;
      for (const auto& [fd, client] : clients_)
        if (client.has_unsent()) readers.push_back({fd, POLLOUT, 0});
      if (readers.empty() || poll(readers.data(), readers.size(), 100) <= 0) return;
      for (const pollfd& reader : readers)
        if (reader.revents != 0 && !send(clients_.at(reader.fd))) clients_.erase(reader.fd);
    }
  }

  static bool receive(Client& client) {
    std::array<char, kMaxAskBytes> buffer;
    const ssize_t bytes = ::recv(client.fd.get(), buffer.data(), buffer.size(), 0);
    if (bytes < 0) return errno == EAGAIN || errno == EINTR;
    client.requests.feed({buffer.data(), static_cast<std::size_t>(bytes)});
    return bytes > 0;
  }

  static bool send(Client& client) {
    while (client.has_unsent()) {
      const ssize_t bytes = ::send(client.fd.get(), client.answer.data() + client.sent,
                                   client.answer.size() - client.sent, MSG_NOSIGNAL);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) return errno == EAGAIN;
      client.sent += static_cast<std::size_t>(bytes);
    }
    client.answer = {};
    client.sent = 0;
    return true;
  }

  static std::string answer_to(const Frame& frame, const Answers& answers) {
    if (frame.kind == MessageKind::kAskStatus) {
      decode_payload<AskStatus>(frame.payload);
      return frame_of(JobStatus{
          answers.status().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    }
    if (frame.kind == MessageKind::kAskStop) {
      answers.stop(decode_payload<AskStop>(frame.payload).now);
      return frame_of(JobStopping{});
    }
    if (frame.kind == MessageKind::kAskConsole) {
      decode_payload<AskConsole>(frame.payload);
      return frame_of(ConsoleText{});
    }
    return frame_of(JobRefusal{"it does not know the request"});
  }

  const OwnedFd folder_;
  const OwnedFd listener_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const OwnedFd events_{epoll_create1(EPOLL_CLOEXEC)};
  OwnedFd spare_ = spare_descriptor();
  std::map<int, Client> clients_;  // by descriptor
};

JobSocket::JobSocket(const std::string& folder) {
  try {
    server_ = std::make_unique<Server>(folder);
  } catch (const Error& e) {
    problem_ = e.message();
  }
}

JobSocket::~JobSocket() = default;

int JobSocket::fd() const {
  return server_ ? server_->fd() : -1;
}

void JobSocket::show(bool is_error, std::string_view text) {
  if (server_) server_->show(is_error, text);
}

void JobSocket::serve(const Answers& answers) {
  if (server_) server_->serve(answers);
}

}  // namespace hgt
