#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/owned_fd.h"

#include "agent_messages.h"
#include "tls.h"
#include "tls_carrier.h"

namespace hgt {

/// A node that has proved that it knows the job's secret.
struct Newcomer {
  Join join;
  bool is_readable = true;  ///< false: `join` is of another version of hgtrain
  std::string address;      ///< the address from which it dialled
  std::string our_address;  ///< the address that it dialled
  std::shared_ptr<TlsCarrier> carrier;
};

/// A socket that listens on `port` of all addresses of this machine, on those of IPv6 too if it has
/// any. Only one process can have it.
OwnedFd listen_for_nodes(int port, std::error_code& error);
/// Error(kDevice) if the port is not free.
OwnedFd listen_for_nodes(int port);

/// Listens for the other nodes of a job, which dial node 0, on a port of all addresses of this
/// machine. A connection that does not prove within kLimit that it knows the secret, and send its
/// Join, is dropped without an answer. At most kMaxPending connections may be unproven at a time,
/// and kMaxPerAddress from one address; for one more, the oldest is dropped: a node proves itself
/// within milliseconds, strangers never. Must outlive the loop.
class JoinListener {
 public:
  static constexpr std::size_t kMaxPending = 64, kMaxPerAddress = 8;
  static constexpr std::chrono::seconds kLimit{5};

  struct Events {
    std::function<void(Newcomer)> joined;
    /// A node of another job, or one that was given another secret, has dialled.
    std::function<void(const std::string& address)> other_secret;
  };

  /// Accepts the nodes that connect to `socket`, which listen_for_nodes() has made.
  JoinListener(asio::io_context& io, OwnedFd socket, const std::string& secret, Events events);
  int port() const { return acceptor_.local_endpoint().port(); }

 private:
  struct Guest;
  using Guests = std::list<std::shared_ptr<Guest>>;

  void accept();
  void accept_later();
  void hear(asio::ip::tcp::socket socket);
  void shake_hands(const std::shared_ptr<Guest>& guest);
  void read_length(const std::shared_ptr<Guest>& guest);
  void read_join(const std::shared_ptr<Guest>& guest);
  void welcome(const std::shared_ptr<Guest>& guest);
  void drop(const std::shared_ptr<Guest>& guest, const std::string& why);

  asio::io_context& io_;
  const std::shared_ptr<JobTls> tls_;
  const Events events_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Guests guests_;
};

}  // namespace hgt
