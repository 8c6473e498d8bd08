#include "worker.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::size_t kHelloBytes = 4096;  // what a stranger may make us hold
// At least as many reads as a socket holds, so that nothing is left unread after the worker's end;
// bounded, so that a worker that never stops talking cannot keep the loop from the others.
constexpr int kMaxControlReads = 64;
// States of a process in /proc/PID/stat.
constexpr char kStopped = 'T';
constexpr char kTraced = 't';
constexpr char kNone = 0;
// After the guard has killed all that descends from the worker, only somebody else can hold its
// output open.
constexpr std::chrono::seconds kDrainLimit{2};

char state_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const std::size_t name = stat.rfind(") ");
  return name == std::string::npos ? kNone : stat[name + 2];
}

}  // namespace

Worker::Worker(asio::io_context& io, int rank, GuardedWorker process, const JobKey& key,
               JobStore& store, RankOutput output, Events events)
    : rank_(rank),
      pid_(process.worker),
      guard_(process.guard),
      key_(key),
      store_(store),
      events_(std::move(events)),
      lifeline_(io, process.lifeline.release()),
      control_(io, process.control.release()),
      streams_{Descriptor(io, process.output.release()), Descriptor(io, process.errors.release())},
      drain_limit_(io),
      output_(std::move(output)),
      frames_(kHelloBytes) {
  watch_lifeline();
  watch_output(OutputSink::kOut);
  watch_output(OutputSink::kErr);
  watch_control();
}

void Worker::signal(int number) {
  if (number == SIGKILL && guard_state() == kTraced) return kill_guard();
  wake_guard();
  tell_guard(number);
}

// ---- the guard ----

void Worker::watch_lifeline() {
  lifeline_.async_wait(Descriptor::wait_read, [this](const std::error_code& error) {
    if (!error && lifeline_.is_open()) on_lifeline();
  });
}

void Worker::on_lifeline() {
  WorkerEnd end;
  const ssize_t bytes = recv(lifeline_.native_handle(), &end, sizeof end, MSG_DONTWAIT);
  // A guard that ends without having read all that it was sent resets the connection; what it has
  // sent itself comes after that.
  const bool nothing_came = bytes < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET);
  if (bytes == sizeof end)
    on_end_reported(end);
  else if (!nothing_came)
    return on_guard_gone();
  watch_lifeline();
}

void Worker::on_end_reported(const WorkerEnd& end) {
  read_control();  // its last words first
  end_ = end;
  events_.ended(*this);
}

/// The guard is ending, or was killed; by the time it is reaped its children are ours.
void Worker::on_guard_gone() {
  lifeline_.close();
  int status = 0;
  waitpid(guard_, &status, 0);
  if (WIFSIGNALED(status)) events_.orphaned(*this);
  if (!end_) {
    end_ = WorkerEnd{SIGKILL, 0, 0};
    events_.ended(*this);
  }
  drain_limit_.expires_after(kDrainLimit);
  drain_limit_.async_wait([this](const std::error_code& error) {
    if (error) return;
    for (const OutputSink::Stream stream : {OutputSink::kOut, OutputSink::kErr}) read_rest(stream);
    for (Descriptor& stream : streams_) stream.close();
    check_gone();
  });
  check_gone();
}

void Worker::check_gone() {
  if (is_finishing_ || streams_[0].is_open() || streams_[1].is_open()) return;
  // The worker has most likely ended, but a guard that somebody has stopped could not report that.
  if (lifeline_.is_open()) return wake_guard();
  is_finishing_ = true;
  control_.close();
  output_.finish([this] { on_gone(); });
  drain_limit_.expires_after(kDrainLimit);
  drain_limit_.async_wait([this](const std::error_code& error) {
    if (error) return;
    output_.say_unfinished();
    on_gone();
  });
}

void Worker::on_gone() {
  if (std::exchange(gone_, true)) return;
  drain_limit_.cancel();
  events_.gone(*this);
}

/// It is not reaped before the lifeline is closed, so its number is still its own.
void Worker::wake_guard() {
  if (lifeline_.is_open()) kill(guard_, SIGCONT);
}

char Worker::guard_state() const {
  return lifeline_.is_open() ? state_of(guard_) : kNone;
}

bool Worker::is_stopped() const {
  return !has_ended() && state_of(pid_) == kStopped;
}

void Worker::wake_stopped_guard() {
  if (guard_state() == kStopped) wake_guard();
}

void Worker::renew_lease() {
  constexpr int kNoSignal = 0;
  tell_guard(kNoSignal);
}

void Worker::tell_guard(int signal) {
  if (lifeline_.is_open())
    (void)!::send(lifeline_.native_handle(), &signal, sizeof signal, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Worker::kill_guard() {
  if (lifeline_.is_open()) kill(guard_, SIGKILL);
}

void Worker::close() {
  for (Descriptor* stream : {&lifeline_, &control_, &streams_[0], &streams_[1]}) stream->close();
  drain_limit_.cancel();
}

void Worker::kill_and_wait() {
  if (!lifeline_.is_open()) return;  // it has been reaped
  wake_guard();
  lifeline_.close();
  waitpid(guard_, nullptr, 0);
}

// ---- stdout and stderr ----

void Worker::watch_output(OutputSink::Stream stream) {
  paused_[stream] = output_.is_full();
  if (paused_[stream]) return;
  streams_[stream].async_wait(Descriptor::wait_read, [this, stream](const std::error_code& error) {
    if (!error && streams_[stream].is_open()) on_output(stream);
  });
}

void Worker::resume_output() {
  for (const OutputSink::Stream stream : {OutputSink::kOut, OutputSink::kErr})
    if (paused_[stream] && streams_[stream].is_open()) watch_output(stream);
}

void Worker::on_output(OutputSink::Stream stream) {
  std::array<char, 65536> buffer;
  const ssize_t bytes = read(streams_[stream].native_handle(), buffer.data(), buffer.size());
  if (bytes > 0) output_.feed(stream, {buffer.data(), static_cast<std::size_t>(bytes)});
  if (bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR))) return watch_output(stream);
  streams_[stream].close();
  check_gone();
}

/// Nobody may have read it because the output was full: it belongs into the log all the same.
void Worker::read_rest(OutputSink::Stream stream) {
  constexpr int kMaxReads = 16;  // as much as a pipe can be made to hold without privileges
  std::array<char, 65536> buffer;
  for (int i = 0; i < kMaxReads && streams_[stream].is_open(); ++i) {
    const ssize_t bytes = read(streams_[stream].native_handle(), buffer.data(), buffer.size());
    if (bytes <= 0) return;
    output_.feed(stream, {buffer.data(), static_cast<std::size_t>(bytes)});
  }
}

// ---- the control channel ----

void Worker::watch_control() {
  control_.async_wait(Descriptor::wait_read, [this](const std::error_code& error) {
    if (!error && read_control()) watch_control();
  });
}

/// Reads what is there; false once the stream is of no further use.
bool Worker::read_control() {
  std::array<char, 65536> buffer;
  for (int round = 0; round < kMaxControlReads && control_.is_open(); ++round) {
    const ssize_t bytes =
        recv(control_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) break;
    if (bytes <= 0) {  // the guard reports whether the worker has ended
      control_.close();
      break;
    }
    try {
      frames_.feed({buffer.data(), static_cast<std::size_t>(bytes)});
      while (const std::optional<Frame> frame = frames_.next()) dispatch(*frame);
    } catch (const Error& e) {
      break_control(e.message());
    }
  }
  return control_.is_open();
}

void Worker::break_control(const std::string& why) {
  control_.close();
  events_.broken(*this, why);
}

void Worker::greet(const Frame& frame) {
  if (frame.kind != MessageKind::kHello)
    throw Error(ErrorKind::kPeer, "its first message is not the one that hgtrain's workers send",
                "leave the descriptor in HGTRAIN_CONTROL_FD to hgtrain");
  const Hello hello = decode_hello(frame.payload);
  if (!hello.key.matches(key_)) throw Error(ErrorKind::kPeer, "the job key is wrong");
  if (hello.version != kProtocolVersion)
    throw Error(ErrorKind::kPeer,
                fmt::format("it uses version {} of the control channel, but hgtrain uses {}",
                            hello.version, kProtocolVersion));
  if (hello.rank != rank())
    throw Error(ErrorKind::kPeer,
                fmt::format("its first message says that it is rank {}", hello.rank));
  greeted_ = true;
  frames_.set_max_bytes(kMaxFrameBytes);
}

void Worker::dispatch(const Frame& frame) {
  if (!greeted_) return greet(frame);
  switch (frame.kind) {
    case MessageKind::kStoreSet: {
      const StoreSet message = decode_store_set(frame.payload);
      return store_.set(message.key, message.value);
    }
    case MessageKind::kStoreGet: {
      const StoreGet message = decode_store_get(frame.payload);
      return store_.get(message.key, [this, id = message.id](const std::string& value) {
        send(encode(StoreValue{id, value}));
      });
    }
    case MessageKind::kHeartbeat:
      return events_.heartbeat(*this, decode_heartbeat(frame.payload));
    case MessageKind::kEvent: {
      nlohmann::json body;
      const std::string kind = decode_event(frame.payload, body);
      return events_.event(*this, kind, body);
    }
    case MessageKind::kHello:
      throw Error(ErrorKind::kPeer, "it sent a second hello");
    default:
      throw Error(ErrorKind::kPeer, "it sent a message that only the launcher may send");
  }
}

void Worker::send(std::string_view frame) {
  if (!control_.is_open()) return;
  outbox_.append(frame);
  if (!sending_) pump();
}

void Worker::pump() {
  while (!outbox_.empty() && control_.is_open()) {
    const ssize_t sent = ::send(control_.native_handle(), outbox_.data(), outbox_.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return outbox_.clear();  // it has closed its end
    if (sent < 0) break;
    outbox_.erase(0, static_cast<std::size_t>(sent));
  }
  sending_ = !outbox_.empty();
  if (!sending_) return;
  control_.async_wait(Descriptor::wait_write, [this](const std::error_code& error) {
    if (!error) pump();
  });
}

}  // namespace hgt
