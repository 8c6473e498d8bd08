#include <algorithm>
#include <utility>
#include <vector>

#include "hgtrain/parallel/range.h"

#include "collectives.h"
#include "gloo_transport.h"

namespace hgt {
namespace {

/// Collectives as rings of the transport's messages.
class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(ControlChannel& channel, const GroupOptions& options,
                  const std::string& master_host)
      : transport_(channel, options, master_host) {}

  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    transport_.all_gather(mine, all);
  }
  void sum(std::span<float> values) override { ring_sum(values); }
  void sum(std::span<double> values) override { ring_sum(values); }
  void leave() noexcept override { transport_.leave(); }
  void abort() noexcept override { transport_.abort(); }

  /// The bytes pass along the ring from the root; a rank sends a piece while it gets the next.
  void broadcast(std::span<std::byte> bytes, int root) override {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    const int n = size(), hops = (rank() - root + n) % n;
    const std::size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
    const auto piece = [&](std::size_t i) {
      return i < pieces ? bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece))
                        : std::span<std::byte>();
    };
    for (std::size_t i = 0; i <= pieces; ++i) {
      const bool receives = hops > 0, sends = hops + 1 < n;
      const std::span<std::byte> in = receives ? piece(i) : std::span<std::byte>();
      const std::span<std::byte> out =
          sends ? (i > 0 ? piece(i - 1) : std::span<std::byte>()) : std::span<std::byte>();
      transport_.exchange(out, (rank() + 1) % n, in, (rank() + n - 1) % n);
    }
  }

 private:
  /// Ring all-reduce: part p is summed along the ring from rank p+1 to rank p, then passed along it
  /// again.
  template <class T>
  void ring_sum(std::span<T> values) {
    const int n = size(), next = (rank() + 1) % n, previous = (rank() + n - 1) % n;
    const auto part = [&](int p) {
      const Range range = even_range(static_cast<std::int64_t>(values.size()), n, (p + 2 * n) % n);
      return values.subspan(range.begin, range.size());
    };
    std::vector<T> received(part(0).size());
    for (int hop = 1; hop < n; ++hop) {
      const std::span<T> sum = part(rank() - hop - 1);
      const std::span<T> theirs = std::span(received).first(sum.size());
      transport_.exchange(std::as_bytes(part(rank() - hop)), next, std::as_writable_bytes(theirs),
                          previous);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
    }
    for (int hop = 0; hop + 1 < n; ++hop)
      transport_.exchange(std::as_bytes(part(rank() - hop)), next,
                          std::as_writable_bytes(part(rank() - hop - 1)), previous);
  }

  GlooTransport transport_;
};

}  // namespace

std::unique_ptr<Communicator> connect_gloo(ControlChannel& channel, const GroupOptions& options,
                                           const std::string& master_host,
                                           const CudaQueue* compute) {
  return make_queued_communicator(channel, stage_for(compute, std::make_unique<GlooCollectives>(
                                                                  channel, options, master_host)));
}

}  // namespace hgt
