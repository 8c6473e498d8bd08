// NCCL, in place of the real one: ranks are processes of one machine, and rank 0 adds up for all
// over a socket to each. A call returns when its result is there, but connecting never waits. If
// ranks make different calls, where the real NCCL would hang or mix up their memory, a call fails.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/comm/cuda_comm.h"
#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"

#include "../../src/comm/cuda_comm_table.h"
#include "order.h"

namespace hgt {

struct CudaCommState {
  int rank, size;
  sockaddr_un address;  ///< of rank 0
  int listener = -1;    ///< of rank 0: whom the others call
  std::uint64_t calls = 0;
  std::vector<int> peers;  ///< sockets: of rank 0 to each rank (its own is -1), of others to rank 0
  ~CudaCommState() {
    peers.push_back(listener);
    for (const int fd : peers)
      if (fd >= 0) ::close(fd);
  }
};

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kPeer, "NCCL: " + what);
}

void give(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  for (std::size_t sent = 0; sent < bytes;) {
    const ssize_t n = ::send(fd, at + sent, bytes - sent, MSG_NOSIGNAL);
    if (n <= 0) fail("a peer is gone");
    sent += static_cast<std::size_t>(n);
  }
}

void take(int fd, void* data, std::size_t bytes) {
  if (bytes > 0 && ::recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes))
    fail("a peer is gone");
}

int open_socket(int flags) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) fail(std::strerror(errno));
  return fd;
}

/// In the abstract namespace, which leaves no file behind.
sockaddr_un address_of(const CudaCommId& id) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, id.bytes, sizeof address.sun_path - 1);
  return address;
}

void listen_for_all(CudaCommState& comm) {
  comm.listener = open_socket(SOCK_NONBLOCK);
  comm.peers.assign(static_cast<std::size_t>(comm.size), -1);
  if (::bind(comm.listener, reinterpret_cast<const sockaddr*>(&comm.address),
             sizeof comm.address) != 0 ||
      ::listen(comm.listener, comm.size) != 0)
    fail(std::strerror(errno));
}

/// Whether all ranks are there.
bool accept_more(CudaCommState& comm) {
  for (int fd = 0; comm.listener >= 0 && fd >= 0;) {
    fd = ::accept(comm.listener, nullptr, nullptr);
    if (fd < 0) continue;
    int rank = 0;
    take(fd, &rank, sizeof rank);
    comm.peers.at(static_cast<std::size_t>(rank)) = fd;
  }
  return std::count(comm.peers.begin(), comm.peers.end(), -1) == 1;
}

/// Whether rank 0 is there.
bool call_rank_0(CudaCommState& comm) {
  if (!comm.peers.empty()) return true;
  const int fd = open_socket(0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&comm.address), sizeof comm.address) != 0) {
    ::close(fd);
    return false;
  }
  comm.peers = {fd};
  give(fd, &comm.rank, sizeof comm.rank);
  return true;
}

/// A call that all ranks must make at the same place in their order of calls.
struct Call {
  char name[32] = {};
  std::uint64_t bytes = 0, detail = 0;  ///< its root, or a hash of its parts
  std::uint64_t number = 0;
  bool operator==(const Call&) const = default;
  std::string text() const {
    return fmt::format("call {} ({} of {} bytes, {:x})", number, name, bytes, detail);
  }
};

/// Rank 0 is given each rank's bytes in turn, its own last; then all are given what it made of
/// them.
template <class Add>
void through_rank_0(CudaCommState& comm, Call call, const void* mine, std::size_t bytes,
                    void* result, std::size_t result_bytes, const Add& add) {
  call.number = ++comm.calls;
  call.bytes = bytes;
  if (comm.rank != 0) {
    give(comm.peers[0], &call, sizeof call);
    give(comm.peers[0], mine, bytes);
    return take(comm.peers[0], result, result_bytes);
  }
  std::vector<std::byte> theirs(bytes);
  for (int rank = 1; rank < comm.size; ++rank) {
    Call other;
    take(comm.peers[static_cast<std::size_t>(rank)], &other, sizeof other);
    if (other != call)
      fail(fmt::format("rank {} is at {}, but rank 0 at {}", rank, other.text(), call.text()));
    take(comm.peers[static_cast<std::size_t>(rank)], theirs.data(), bytes);
    add(rank, theirs.data());
  }
  for (int rank = 1; rank < comm.size; ++rank)
    give(comm.peers[static_cast<std::size_t>(rank)], result, result_bytes);
}

template <class T>
void sum_of(const Call& call, CudaCommState* comm, T* values, std::size_t count,
            CudaStreamState* stream) {
  emulation::note(stream->use(), {{values, count * sizeof(T), true}});
  through_rank_0(*comm, call, values, count * sizeof(T), values, count * sizeof(T),
                 [&](int, const std::byte* theirs) {
                   for (std::size_t i = 0; i < count; ++i) {
                     T value;
                     std::memcpy(&value, theirs + i * sizeof(T), sizeof value);
                     values[i] += value;
                   }
                 });
}

CudaResult sum(CudaCommState* comm, void* values, std::size_t count, DType type,
               CudaStreamState* stream) {
  return guarded([&] {
    const auto as = [&]<class T>(T) {
      const Call call{.name = "sum", .detail = static_cast<std::uint64_t>(type)};
      sum_of(call, comm, static_cast<T*>(values), count, stream);
    };
    type == DType::kF64 ? as(double()) : visit_element(type, as);
  });
}

std::size_t elements_of(std::span<const OwnedRange> parts) {
  return parts.empty() ? 0 : static_cast<std::size_t>(parts.back().elements.end);
}

std::uint64_t hash_of(std::span<const OwnedRange> parts) {
  std::uint64_t hash = 0;
  for (const auto& [elements, rank] : parts) {
    const std::int64_t part[] = {elements.begin, elements.end, rank};
    hash = xxh3(std::as_bytes(std::span(part)), hash);
  }
  return hash;
}

/// What this rank does not own becomes NaN.
CudaResult reduce_scatter(CudaCommState* comm, void* values, DType type, const OwnedRange* parts,
                          std::size_t num_parts, CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    const auto as = [&]<class T>(T) {
      T* const typed = static_cast<T*>(values);
      const Call call{.name = "reduce-scatter",
                      .detail = hash_of(all) + static_cast<std::uint64_t>(type)};
      sum_of(call, comm, typed, elements_of(all), stream);
      for (const auto& [elements, rank] : all)
        if (rank != comm->rank)
          std::fill(typed + elements.begin, typed + elements.end,
                    T(std::numeric_limits<float>::quiet_NaN()));
    };
    type == DType::kF64 ? as(double()) : visit_element(type, as);
  });
}

CudaResult make_id(CudaCommId* out) {
  return guarded([&] {
    std::random_device random;
    *out = {};
    fmt::format_to(out->bytes, "hgtrain-emulation-{:08x}{:08x}", random(), random());
  });
}

CudaResult start_connect(const CudaCommId* id, int rank, int size, int, CudaCommState** out) {
  return guarded([&] {
    auto comm = std::make_unique<CudaCommState>();
    comm->rank = rank;
    comm->size = size;
    comm->address = address_of(*id);
    if (rank == 0) listen_for_all(*comm);
    *out = comm.release();
  });
}

CudaResult poll(CudaCommState* comm, bool* ready) {
  return guarded([&] { *ready = comm->rank == 0 ? accept_more(*comm) : call_rank_0(*comm); });
}

CudaResult all_gather(CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                      CudaStreamState* stream) {
  return guarded([&] {
    emulation::note(stream->use(), {{mine, bytes, false},
                                    {all, bytes * static_cast<std::size_t>(comm->size), true}});
    const auto put = [&](int rank, const void* from) {
      std::memcpy(static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes, from,
                  bytes);
    };
    put(comm->rank, mine);
    through_rank_0(*comm, {.name = "all-gather"}, mine, bytes, all,
                   bytes * static_cast<std::size_t>(comm->size), put);
  });
}

CudaResult broadcast(CudaCommState* comm, void* memory, std::size_t bytes, int root,
                     CudaStreamState* stream) {
  return guarded([&] {
    emulation::note(stream->use(), {{memory, bytes, comm->rank != root}});  // it only reads there
    const Call call{.name = "broadcast", .detail = static_cast<std::uint64_t>(root)};
    through_rank_0(*comm, call, memory, bytes, memory, bytes,
                   [&](int rank, const std::byte* theirs) {
                     if (rank == root) std::memcpy(memory, theirs, bytes);
                   });
  });
}

CudaResult all_gather_parts(CudaCommState* comm, void* memory, const OwnedRange* parts,
                            std::size_t num_parts, CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    const std::size_t bytes = elements_of(all);
    emulation::note(stream->use(), {{memory, bytes, true}});
    const Call call{.name = "all-gather of parts", .detail = hash_of(all)};
    through_rank_0(*comm, call, memory, bytes, memory, bytes,
                   [&](int peer, const std::byte* theirs) {
                     for (const auto& [part, rank] : all)
                       if (rank == peer)
                         std::memcpy(static_cast<std::byte*>(memory) + part.begin,
                                     theirs + part.begin, static_cast<std::size_t>(part.size()));
                   });
  });
}

CudaResult destroy(CudaCommState* comm) {
  delete comm;
  return nullptr;
}

}  // namespace

const CudaCommTable* cuda_comm_table() {
  static constexpr CudaCommTable kTable = {
      .make_id = make_id,
      .start_connect = start_connect,
      .poll = poll,
      .all_gather = all_gather,
      .sum = sum,
      .broadcast = broadcast,
      .reduce_scatter = reduce_scatter,
      .all_gather_parts = all_gather_parts,
      .start_leave = [](CudaCommState*) -> CudaResult { return nullptr; },
      .destroy = destroy,
      .abort = destroy,
  };
  return &kTable;
}

}  // namespace hgt
