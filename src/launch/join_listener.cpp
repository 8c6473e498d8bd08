#include "join_listener.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/launch/hosts.h"

#include "payload.h"
#include "ports.h"

namespace hgt {
namespace {

using asio::ip::tcp;

constexpr std::size_t kMaxJoinBytes = 4 << 20;  // with a config

std::string text_of(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

tcp::acceptor acceptor_of(asio::io_context& io, OwnedFd socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return {io, address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.release()};
}

}  // namespace

OwnedFd listen_for_nodes(int port, std::error_code& error) {
  const auto number = static_cast<asio::ip::port_type>(port);
  asio::io_context io;
  tcp::acceptor out(io);
  tcp::endpoint all(tcp::v6(), number);
  out.open(all.protocol(), error);
  if (!error) {
    out.set_option(asio::ip::v6_only(false), error);
  } else {
    all = tcp::endpoint(tcp::v4(), number);
    out.open(all.protocol(), error);
  }
  if (!error) out.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) out.bind(all, error);
  if (!error) out.listen(asio::socket_base::max_listen_connections, error);
  return OwnedFd(error ? -1 : out.release());
}

OwnedFd listen_for_nodes(int port) {
  std::error_code error;
  OwnedFd out = listen_for_nodes(port, error);
  if (!error) return out;
  const std::string user = port_user(port);
  throw Error(
      ErrorKind::kDevice,
      fmt::format("cannot listen for the other nodes on port {}: {}{}", port, error.message(),
                  user.empty() ? "" : fmt::format(": {} listens there", user)),
      "take another one on every node: --master_port N");
}

struct JoinListener::Guest {
  Guest(tcp::socket socket, JobTls& tls, asio::io_context& io)
      : deadline(io), stream(std::make_unique<TlsStream>(std::move(socket), tls.context())) {}

  std::string address, our_address;
  asio::steady_timer deadline;
  std::unique_ptr<TlsStream> stream;
  std::array<unsigned char, 4> length;  // of a frame (wire/frame.h), which holds the Join
  std::string frame;
};

JoinListener::JoinListener(asio::io_context& io, OwnedFd socket, const std::string& secret,
                           Events events)
    : io_(io),
      tls_(std::make_shared<JobTls>(JobTls::Side::kServer, secret)),
      events_(std::move(events)),
      acceptor_(acceptor_of(io, std::move(socket))),
      pause_(io) {
  accept();
}

void JoinListener::accept() {
  acceptor_.async_accept([this](const std::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return accept_later();
    hear(std::move(socket));
    accept();
  });
}

/// If this process has no more descriptors, the guest stays in the queue.
void JoinListener::accept_later() {
  constexpr std::chrono::milliseconds kPause{100};
  pause_.expires_after(kPause);
  pause_.async_wait([this](const std::error_code& error) {
    if (!error) accept();
  });
}

void JoinListener::hear(tcp::socket socket) {
  std::error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;
  const std::string address = text_of(peer.address());
  const auto is_of_address = [&](const auto& guest) { return guest->address == address; };
  const auto of_address = std::count_if(guests_.begin(), guests_.end(), is_of_address);
  const bool is_crowd = of_address >= static_cast<std::ptrdiff_t>(kMaxPerAddress);
  if (is_crowd || guests_.size() >= kMaxPending) {
    const std::shared_ptr<Guest> oldest =
        is_crowd ? *std::ranges::find_if(guests_, is_of_address) : guests_.front();
    drop(oldest, "there are newer ones");
  }
  const auto guest = std::make_shared<Guest>(std::move(socket), *tls_, io_);
  guest->address = address;
  guest->our_address = text_of(guest->stream->lowest_layer().local_endpoint(error).address());
  guest->stream->lowest_layer().set_option(tcp::no_delay(true), error);
  guests_.push_back(guest);
  guest->deadline.expires_after(kLimit);
  guest->deadline.async_wait([this, guest](const std::error_code& cancelled) {
    if (!cancelled) drop(guest, "it took too long");
  });
  shake_hands(guest);
}

// Each step ends with drop() if the guest has been dropped meanwhile: its stream is closed then.

void JoinListener::shake_hands(const std::shared_ptr<Guest>& guest) {
  guest->stream->async_handshake(TlsStream::server, [this, guest](const std::error_code& error) {
    if (JobTls::is_other_secret(error)) events_.other_secret(guest->address);
    if (error || !JobTls::knows_secret(*guest->stream))
      return drop(guest, "it does not know the job's secret");
    read_length(guest);
  });
}

void JoinListener::read_length(const std::shared_ptr<Guest>& guest) {
  asio::async_read(*guest->stream, asio::buffer(guest->length),
                   [this, guest](const std::error_code& error, std::size_t) {
                     if (error) return drop(guest, "it ended the stream");
                     std::size_t bytes = 0;
                     for (std::size_t i = 0; i < guest->length.size(); ++i)
                       bytes |= std::size_t{guest->length[i]} << (8 * i);
                     if (bytes == 0 || bytes > kMaxJoinBytes)
                       return drop(guest, "it is not an agent");
                     guest->frame.resize(bytes);
                     read_join(guest);
                   });
}

void JoinListener::read_join(const std::shared_ptr<Guest>& guest) {
  asio::async_read(*guest->stream, asio::buffer(guest->frame),
                   [this, guest](const std::error_code& error, std::size_t) {
                     if (error) return drop(guest, "it ended the stream");
                     welcome(guest);
                   });
}

void JoinListener::welcome(const std::shared_ptr<Guest>& guest) {
  Newcomer newcomer;
  try {
    if (guest->frame[0] != static_cast<char>(MessageKind::kJoin)) refuse_payload();
    newcomer.join = decode_payload<Join>(std::string_view(guest->frame).substr(1));
    newcomer.is_readable = newcomer.join.version == kAgentVersion && newcomer.join.workers >= 0 &&
                           newcomer.join.workers <= kMaxWorkersOfHost;
  } catch (const Error&) {
    newcomer.is_readable = false;
  }
  newcomer.address = guest->address;
  newcomer.our_address = guest->our_address;
  newcomer.carrier = std::make_shared<TlsCarrier>(std::move(guest->stream), tls_);
  guest->deadline.cancel();
  guests_.remove(guest);
  events_.joined(std::move(newcomer));
}

void JoinListener::drop(const std::shared_ptr<Guest>& guest, const std::string& why) {
  const auto place = std::find(guests_.begin(), guests_.end(), guest);
  if (place == guests_.end()) return;
  guests_.erase(place);
  log_info("a connection from {} is dropped: {}", guest->address, why);
  guest->deadline.cancel();
  std::error_code ignored;
  guest->stream->lowest_layer().close(ignored);
}

}  // namespace hgt
