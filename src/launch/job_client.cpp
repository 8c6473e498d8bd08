#include "hgtrain/launch/job_client.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/owned_fd.h"

#include "job_messages.h"
#include "socket_address.h"

namespace hgt {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kForever = -1;

}  // namespace

class JobClient::Stream {
 public:
  Stream(std::string folder, OwnedFd fd) : folder_(std::move(folder)), fd_(std::move(fd)) {}

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return;  // it has closed the stream; what it said before is read next
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// Whether something comes, if only the end of the stream, before the time is up.
  bool wait(int patience_ms) {
    for (;;) {
      pollfd event{fd_.get(), POLLIN, 0};
      const int ready = poll(&event, 1, patience_ms);
      if (ready >= 0 || errno != EINTR) return ready != 0;
    }
  }

  /// nullopt at the end of the stream.
  std::optional<Frame> receive(int patience_ms = kPatienceMs) {
    std::array<char, 65536> buffer;
    for (;;) {
      if (auto frame = frames_.next()) return frame;
      if (!wait(patience_ms))
        throw Error(ErrorKind::kPeer,
                    fmt::format("the launcher of {} has not answered for {} s", folder_,
                                kPatienceMs / 1000),
                    how_to_continue());
      const ssize_t bytes = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return std::nullopt;  // a launcher that was killed may reset the stream
      frames_.feed({buffer.data(), static_cast<std::size_t>(bytes)});
    }
  }

  std::string how_to_continue() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    (void)getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (peer.pid <= 0)  // it is in another container of this machine
      return fmt::format("if it was stopped: `kill -CONT PID` on its host; {}/run.json has both",
                         folder_);
    return fmt::format("if it was stopped: on {}, `kill -CONT {}`", host_name(), peer.pid);
  }

  Error error(const std::string& why) const {
    return Error(ErrorKind::kPeer,
                 fmt::format("the launcher of {} gave no answer: {}", folder_, why));
  }

 private:
  const std::string folder_;
  const OwnedFd fd_;
  FrameReader frames_;
};

std::optional<JobClient> JobClient::connect(const std::string& folder) {
  const OwnedFd opened(open_folder(folder));
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress address(opened.get());
  if (fd.get() >= 0 && ::connect(fd.get(), address.get(), address.size()) == 0)
    return JobClient(std::make_unique<Stream>(folder, std::move(fd)));
  if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
  throw Error(ErrorKind::kConfig,
              fmt::format("cannot connect to {}/{}: {}", folder, kSocketName, std::strerror(errno)),
              errno == EACCES ? "only the user who started the run can ask its launcher" : "");
}

JobClient::JobClient(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
JobClient::JobClient(JobClient&& other) noexcept = default;
JobClient::~JobClient() = default;

std::optional<Frame> JobClient::ask(std::string_view request, MessageKind answer) {
  stream_->send(request);
  auto frame = stream_->receive();
  if (frame && frame->kind == MessageKind::kJobRefusal)
    throw stream_->error(decode_payload<JobRefusal>(frame->payload).why);
  if (frame && frame->kind != answer)
    throw stream_->error("its answer does not fit the request; is it another version?");
  return frame;
}

std::optional<nlohmann::json> JobClient::status() {
  const auto frame = ask(frame_of(AskStatus{}), JobStatus::kKind);
  if (!frame) return std::nullopt;
  auto status = try_parse_json<nlohmann::json>(decode_payload<JobStatus>(frame->payload).json);
  if (!status.is_object()) refuse_payload();
  return status;
}

void JobClient::stop(bool now) try {
  ask(frame_of(AskStop{now}), JobStopping::kKind);
} catch (const Error& e) {
  if (e.hint().empty()) throw;
  throw Error(e.kind(), e.message(), e.hint() + "; then it obeys this request");
}

bool JobClient::watch_console(const Show& show) {
  for (auto frame = ask(frame_of(AskConsole{}), ConsoleText::kKind); frame;
       frame = stream_->receive(kForever)) {
    const auto shown = decode_payload<ConsoleText>(frame->payload);
    show(shown.is_error, shown.left_out, shown.text);
    if (shown.is_last) return true;
  }
  return false;
}

bool JobClient::wait_for_end(int limit_ms) {
  while (stream_->wait(limit_ms))
    if (!stream_->receive()) return true;
  return false;
}

}  // namespace hgt
