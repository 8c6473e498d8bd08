#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// How fast TCP is between two hosts.
struct LinkFigures {
  std::int64_t round_trip_ns = 0;  ///< the shortest of one byte, there and back
  std::int64_t bytes_per_second = 0;
};

/// Lets one other host measure the link to this one: listens at a numeric address until a peer has
/// sent the token and has measured, at most for 15 s. A connection that does not send the token
/// within a second is dropped; at most 64 of them are open, then the oldest is dropped.
class LinkListener {
 public:
  /// Error(kDevice) if it cannot listen there.
  LinkListener(const std::string& address, std::string token);
  ~LinkListener();
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;
  int port() const { return port_; }

 private:
  void serve() const;

  const std::string token_;
  OwnedFd listener_;
  OwnedFd stop_, stopped_;  // a pipe that ends the thread when it is closed
  int port_ = 0;
  std::thread thread_;
};

/// Measures the link to a LinkListener. Blocks for about half a second; each of its 20 round trips
/// may take 3 s. Error(kPeer) says why it cannot.
LinkFigures measure_link(const std::string& address, int port, const std::string& token);

}  // namespace hgt
