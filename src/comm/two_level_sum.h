#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/base/dtype.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/parallel/shards.h"
#include "hgtrain/wire/control.h"

#include "shared_board.h"
#include "tcp_transport.h"

namespace hgt {

/// The ranks of a group that share a host, one after another in the group.
struct RanksOfHost {
  int first;
  int size;
};

/// The hosts of a group in the order of their ranks, given each rank's host. Empty if TwoLevelSum
/// cannot use them: a host's ranks do not follow each other, all ranks share a host, or no two do.
std::vector<RanksOfHost> ranks_of_hosts(const std::vector<std::string>& hosts);

/// Sums and gathers for groups in which several ranks share a host. A host's ranks exchange values
/// through shared memory; between hosts, each value passes at most once in either direction. The
/// partial sums go from the first host to the last, and each host adds its ranks' values; the sums
/// come back the same way, as far as a host needs them. What is gathered passes from the host of
/// its owner in both directions. This is done piece by piece, so that all links are busy. The order
/// of addition is that of the ranks, so the bits are those of one level. Ranks of a host share the
/// work by parts of each piece.
class TwoLevelSum {
 public:
  /// All ranks of the group call it. Null on every rank if ranks_of_hosts() is empty, or if ranks
  /// of a host cannot share memory. `transport` must outlive it.
  static std::unique_ptr<TwoLevelSum> connect(ControlChannel& channel, const GroupOptions& options,
                                              TcpTransport& transport);

  /// The same as the functions of Collectives.
  void sum(std::span<std::byte> values, DType type);
  void reduce_scatter(std::span<std::byte> values, DType type, std::span<const OwnedRange> parts);
  void all_gather(std::span<std::byte> values, std::span<const OwnedRange> parts);
  void abort() noexcept { board_.abort(); }

 private:
  TwoLevelSum(TcpTransport& transport, std::vector<RanksOfHost> hosts, std::size_t host,
              SharedSegment segment, const GroupOptions& of_host);

  template <class T>
  class Pass;
  template <class T>
  class Sum;
  class Gather;

  std::size_t host_of(int rank) const;

  TcpTransport& transport_;
  const std::vector<RanksOfHost> hosts_;
  const std::size_t host_;  // this rank's
  const int lanes_;         // how many ranks of each host sum and send, each its part of a piece
  SharedBoard board_;
};

}  // namespace hgt
