#include "stream_channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "hgtrain/base/exception.h"
#include "hgtrain/wire/messages.h"
#include "hgtrain/wire/store.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kHeartbeatPeriod{1};

class StreamChannel final : public ControlChannel {
 public:
  StreamChannel(int fd, const std::string& hello, Commands commands)
      : fd_(fd), commands_(std::move(commands)), queue_{hello} {
    writer_ = std::thread([this] { write_loop(); });
    try {
      reader_ = std::thread([this] { read_loop(); });
    } catch (...) {  // the system has no thread left
      finish_writing();
      throw;
    }
  }

  ~StreamChannel() override {
    finish_writing();
    shutdown(fd_, SHUT_RDWR);
    reader_.join();
    ::close(fd_);
  }

  Progress& progress() override { return progress_; }

  void set(const std::string& key, const std::string& value) override {
    push(encode(StoreSet{key, value}));
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t id = next_get_++;
    waiting_[id] = std::nullopt;
    queue_.push_back(encode(StoreGet{id, key}));
    changed_.notify_all();
    changed_.wait_for(lock, timeout, [&] { return waiting_[id] || !end_reason_.empty(); });
    const std::optional<std::string> value = std::move(waiting_[id]);
    waiting_.erase(id);
    if (value) return *value;
    if (!end_reason_.empty()) throw_store_ended(key, end_reason_);
    throw_store_timeout(key, timeout);
  }

  void send(const std::string& kind, const nlohmann::json& body) override {
    push(encode_event(kind, body));
  }

  void flush() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (queue_.empty() && !writing_) || lost_; });
  }

 private:
  /// Sends what is queued.
  void finish_writing() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    writer_.join();
  }

  void push(std::string frame) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    queue_.push_back(std::move(frame));
    changed_.notify_all();
  }

  /// Sends what is queued, and a heartbeat whenever a second has passed without one.
  void write_loop() {
    auto next_heartbeat = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!lost_) {
      if (queue_.empty() && closing_) return;
      if (std::chrono::steady_clock::now() >= next_heartbeat) {
        next_heartbeat = std::chrono::steady_clock::now() + kHeartbeatPeriod;
        queue_.push_back(heartbeat());
      }
      if (queue_.empty()) {
        changed_.wait_until(lock, next_heartbeat,
                            [&] { return !queue_.empty() || closing_ || lost_; });
        continue;
      }
      const std::string frame = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      lock.unlock();
      const bool sent = write_all(frame);
      lock.lock();
      writing_ = false;
      if (!sent) {  // then nothing can be received either: the reader ends, and all that wait
        lost_ = true;
        shutdown(fd_, SHUT_RDWR);
      }
      changed_.notify_all();
    }
  }

  std::string heartbeat() const {
    const char* const group = progress_.waits_in;
    return encode(Heartbeat{progress_.step, progress_.collective, progress_.phase.load(),
                            progress_.work, progress_.action.get(), group ? group : "",
                            progress_.waits_for, progress_.begun});
  }

  bool write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void read_loop() {
    FrameReader frames;
    std::array<char, 65536> buffer;
    try {
      for (;;) {
        const ssize_t bytes = recv(fd_, buffer.data(), buffer.size(), 0);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0) break;
        frames.feed({buffer.data(), static_cast<std::size_t>(bytes)});
        while (std::optional<Frame> frame = frames.next()) dispatch(*frame);
      }
    } catch (const std::exception& e) {
      end_waits(error_from(e).message());
    }
    end_waits("the launcher is gone");
    {
      const std::lock_guard lock(mutex_);
      lost_ = true;
      changed_.notify_all();
      if (closing_) return;
    }
    if (commands_.lost) commands_.lost();
  }

  void dispatch(const Frame& frame) {
    switch (frame.kind) {
      case MessageKind::kStoreValue:
        return deliver(decode_store_value(frame.payload));
      case MessageKind::kStop:
        return commands_.stop ? commands_.stop() : void();
      case MessageKind::kCheckpoint:
        return commands_.checkpoint ? commands_.checkpoint() : void();
      case MessageKind::kShowStacks:
        return commands_.show_stacks ? commands_.show_stacks() : void();
      case MessageKind::kAbort:
        end_waits(frame.payload);
        return commands_.abort ? commands_.abort(frame.payload) : void();
      default:
        throw Error(ErrorKind::kPeer, "the launcher sent a message that only workers send");
    }
  }

  void deliver(StoreValue message) {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(message.id);
    if (it == waiting_.end()) return;  // the wait timed out meanwhile
    it->second = std::move(message.value);
    changed_.notify_all();
  }

  void end_waits(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (end_reason_.empty()) end_reason_ = reason.empty() ? "aborted" : reason;
    changed_.notify_all();
  }

  const int fd_;
  const Commands commands_;
  Progress progress_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::string> queue_;  // frames to send
  bool writing_ = false;           // a frame is on its way, off the queue
  bool closing_ = false;
  bool lost_ = false;
  std::string end_reason_;
  std::uint64_t next_get_ = 0;
  std::map<std::uint64_t, std::optional<std::string>> waiting_;
  std::thread writer_;
  std::thread reader_;
};

}  // namespace

std::unique_ptr<ControlChannel> open_stream_channel(int fd, int rank, const JobKey& key,
                                                    ControlChannel::Commands commands) {
  const Hello hello{rank, getpid(), kProtocolVersion, key};
  return std::make_unique<StreamChannel>(fd, encode(hello), std::move(commands));
}

}  // namespace hgt
