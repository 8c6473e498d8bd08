#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "hgtrain/comm/connect.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace hgt {

/// Bytes to and from the other ranks of a group over Gloo's TCP transport; every wait is bounded.
/// Messages between two ranks arrive in the order sent. One thread uses it; any thread may call
/// abort(). Throws Error(kPeer) that names the peer.
class GlooTransport {
 public:
  GlooTransport(ControlChannel& channel, const GroupOptions& options,
                const std::string& master_host);
  ~GlooTransport();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

  /// A message on its way. Its memory must stay, and what is received must not be touched, until
  /// wait() returns or the transfer is gone.
  class Transfer {
   public:
    Transfer(Transfer&&) noexcept;
    ~Transfer();
    void wait();

   private:
    friend GlooTransport;
    Transfer(GlooTransport& transport, bool sending, const std::byte* data, std::size_t bytes,
             int peer);
    template <class Call>
    [[gnu::noinline]] void named(Call call);  // not inlined: tests/tsan.supp names it

    GlooTransport& transport_;
    const bool sending_;
    const int peer_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

  /// Empty messages are skipped.
  Transfer send(std::span<const std::byte> out, int to);
  Transfer receive(std::span<std::byte> in, int from);

  /// Sends `out` to one rank while receiving all of `in` from another. Empty spans are skipped; the
  /// two must not overlap.
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from);

  /// Gives `mine` to every rank; `all` receives all ranks' in rank order (size() times as long).
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);

  /// Waits some seconds until every rank has called it: after that no rank needs this one's
  /// connections. Never throws.
  void leave() noexcept;
  void abort() noexcept;

 private:
  using Buffer = gloo::transport::UnboundBuffer;

  void wait_for_all(const char* where, std::chrono::milliseconds timeout);
  /// Registers what abort() must wake; throws if abort() has been called.
  void set_waited_for(Buffer* buffer);

  ControlChannel& channel_;
  const GroupOptions options_;
  std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;  ///< guards the two below
  Buffer* waited_for_ = nullptr;
  bool aborted_ = false;
};

/// This machine's address on the route to `host`, in numbers: "127.0.0.1" for "localhost".
/// Error(kPeer) if the name does not resolve or there is no route.
std::string address_towards(const std::string& host);

}  // namespace hgt
