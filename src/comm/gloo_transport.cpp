#include "gloo_transport.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::uint64_t kSlot = 1;
constexpr std::chrono::milliseconds kLeaveTimeout{5000};

std::string key(const GroupOptions& options, const std::string& name) {
  return fmt::format("comm/{}/{}", options.group, name);
}

/// The control channel's store, as Gloo expects a store.
class ChannelStore final : public gloo::rendezvous::Store {
 public:
  ChannelStore(ControlChannel& channel, const GroupOptions& options)
      : channel_(channel), options_(options) {}

  void set(const std::string& name, const std::vector<char>& data) override {
    channel_.set(key(options_, name), {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& name) override {
    const std::string value = channel_.get(key(options_, name), options_.timeout);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& names) override { wait(names, options_.timeout); }
  void wait(const std::vector<std::string>& names, const std::chrono::milliseconds&) override {
    for (const std::string& name : names) get(name);
  }

 private:
  ControlChannel& channel_;
  const GroupOptions& options_;
};

}  // namespace

GlooTransport::GlooTransport(ControlChannel& channel, const GroupOptions& options,
                             const std::string& master_host)
    : channel_(channel), options_(options) {
  std::signal(SIGPIPE, SIG_IGN);  // Gloo may write to lost peers: an error, not a signal
  gloo::transport::tcp::attr attr;
  attr.hostname = address_towards(master_host);
  try {
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(options.timeout);
    ChannelStore store(channel, options_);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
    // If a peer closes a connection while Gloo sets it up, the exception would end the process.
    wait_for_all("connected", options_.timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorKind::kPeer, fmt::format("rank {} could not connect to its peers over {}: {}",
                                              options.rank, attr.hostname, e.what()));
  }
}

GlooTransport::~GlooTransport() {
  context_->closeConnections();
}

/// Queues it; does nothing for an empty transfer. Gloo takes one pointer type for both directions;
/// a send only reads.
GlooTransport::Transfer::Transfer(GlooTransport& transport, bool sending, const std::byte* data,
                                  std::size_t bytes, int peer)
    : transport_(transport), sending_(sending), peer_(peer) {
  if (bytes == 0) return;
  named([&] {
    buffer_ = transport_.context_->createUnboundBuffer(const_cast<std::byte*>(data), bytes);
    if (sending_)
      buffer_->send(peer_, kSlot);
    else
      buffer_->recv(peer_, kSlot);
  });
}

GlooTransport::Transfer::Transfer(Transfer&&) noexcept = default;
GlooTransport::Transfer::~Transfer() = default;

void GlooTransport::Transfer::wait() {
  if (!buffer_) return;
  transport_.set_waited_for(buffer_.get());
  bool done = false;
  named([&] {
    const auto timeout = transport_.options_.timeout;
    done = sending_ ? buffer_->waitSend(timeout) : buffer_->waitRecv(timeout);
  });
  transport_.set_waited_for(nullptr);
  if (!done) throw Error(ErrorKind::kPeer, "aborted");
}

/// Makes what Gloo throws an Error that names the peer.
template <class Call>
void GlooTransport::Transfer::named(Call call) {
  const std::int64_t start_ns = now_ns();
  try {
    call();
  } catch (const std::exception& e) {
    transport_.set_waited_for(nullptr);
    const double timeout_ms = static_cast<double>(transport_.options_.timeout.count());
    const int rank = transport_.options_.job_rank(peer_);
    if (ms_since(start_ns) >= timeout_ms)
      throw Error(ErrorKind::kPeer,
                  fmt::format("rank {} did not answer within {:g} s", rank, timeout_ms * 1e-3));
    throw Error(ErrorKind::kPeer, fmt::format("lost rank {}: {}", rank, e.what()));
  }
}

GlooTransport::Transfer GlooTransport::send(std::span<const std::byte> out, int to) {
  return Transfer(*this, true, out.data(), out.size(), to);
}

GlooTransport::Transfer GlooTransport::receive(std::span<std::byte> in, int from) {
  return Transfer(*this, false, in.data(), in.size(), from);
}

void GlooTransport::set_waited_for(Buffer* buffer) {
  const std::lock_guard lock(mutex_);
  waited_for_ = buffer;
  if (buffer != nullptr && aborted_) throw Error(ErrorKind::kPeer, "aborted");
}

void GlooTransport::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (waited_for_ == nullptr) return;
  waited_for_->abortWaitSend();
  waited_for_->abortWaitRecv();
}

void GlooTransport::exchange(std::span<const std::byte> out, int to, std::span<std::byte> in,
                             int from) {
  Transfer incoming = receive(in, from);
  Transfer outgoing = send(out, to);
  incoming.wait();
  outgoing.wait();
}

void GlooTransport::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size(); ++peer) {
    const std::span<std::byte> theirs = all.subspan(peer * mine.size(), mine.size());
    if (peer == rank()) {
      std::copy(mine.begin(), mine.end(), theirs.begin());
      continue;
    }
    transfers.push_back(receive(theirs, peer));
    transfers.push_back(send(mine, peer));
  }
  for (Transfer& transfer : transfers) transfer.wait();
}

/// Waits until every rank has reached this point, through the store.
void GlooTransport::wait_for_all(const char* where, std::chrono::milliseconds timeout) {
  const auto name = [&](int rank) { return key(options_, fmt::format("{}/{}", where, rank)); };
  channel_.set(name(rank()), "");
  for (int peer = 0; peer < size(); ++peer) channel_.get(name(peer), timeout);
}

void GlooTransport::leave() noexcept {
  // Closing a connection drops data that are still on their way, so a rank needs a sign that there
  // are none, which must not come over these connections.
  try {
    wait_for_all("left", std::min(options_.timeout, kLeaveTimeout));
  } catch (const std::exception&) {
    // A peer that failed will not come; its own error says why.
  }
}

}  // namespace hgt
