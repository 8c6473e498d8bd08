// NCCL, in place of the real one: ranks are processes or threads of one machine, and rank 0 of a
// group computes the sums of all, over a socket to each rank. A collective is queued: its call
// waits for nobody, and it reads and writes its memory later, on a thread of its group. So the
// collectives of a group run one after the other, and those of different groups at the same time.
//
// If ranks make different calls, a collective fails; the real NCCL would hang or mix up their
// memory. A collective also fails if ranks enter the collectives of two groups in different orders.
// Broadcasts are excepted: as the messages of a pipeline, they may be entered in any order across
// groups, because a rank that waits for one is assumed to leave room on its device for the others.

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"

#include "../../src/comm/add_received.h"
#include "../../src/comm/cuda_comm_table.h"
#include "order.h"
#include "sockets.h"

namespace hgt {
namespace {

using emulation::Access;
using emulation::Operation;
using emulation::Operations;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kPeer, "NCCL: " + what);
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

/// How many collectives of a group a rank has entered.
struct Entered {
  char group[64] = {};
  std::uint64_t count = 0;
};

/// What a rank has entered of the groups that come from one by splits.
class Order {
 public:
  void add(const std::string& group) {
    const std::lock_guard lock(mutex_);
    counts_[group] = 0;
  }
  void remove(const std::string& group) {
    const std::lock_guard lock(mutex_);
    counts_.erase(group);
  }
  /// Enters a collective of the group; returns what was entered before.
  std::vector<Entered> enter(const std::string& group) {
    const std::lock_guard lock(mutex_);
    std::vector<Entered> before;
    for (const auto& [name, count] : counts_) {
      Entered& one = before.emplace_back();
      name.copy(one.group, sizeof one.group - 1);
      one.count = count;
    }
    ++counts_[group];
    return before;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

/// Whether all ranks have entered as much of each group that they share.
class OrderCheck {
 public:
  explicit OrderCheck(const Call& call) : call_(call) {}
  void add(int rank, std::span<const Entered> all) {
    for (const Entered& one : all) {
      const auto [first, is_new] = seen_.try_emplace(one.group, rank, one.count);
      const auto [other, count] = first->second;
      if (!is_new && one.count != count)
        fail(
            fmt::format("ranks {} and {} enter collectives of two groups in different orders: "
                        "before {}, they have entered {} and {} of {}",
                        other, rank, call_.text(), count, one.count, one.group));
    }
  }

 private:
  const Call& call_;
  std::map<std::string, std::pair<int, std::uint64_t>> seen_;
};

/// A collective that is queued.
struct Task {
  Call call;
  std::vector<Entered> before;
  std::shared_ptr<Operation> operation;
  std::function<void()> exchange;
};

}  // namespace

struct CudaCommState {
  CudaCommState(const std::string& group, int of_rank, int ranks, std::shared_ptr<Order> of_groups)
      : name(group),
        rank(of_rank),
        size(ranks),
        order(std::move(of_groups)),
        sockets_(group, of_rank, ranks) {
    order->add(name);
  }
  /// What is queued is done first, unless it failed.
  ~CudaCommState() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    for (const auto& operation : failed_) operation->give_up();
    order->remove(name);
  }

  /// Whether nothing is under way that the next call must wait for.
  bool poll() {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    if (!thread_.joinable() && sockets_.connect()) thread_ = std::thread([this] { serve(); });
    if (queue_.empty()) splitting_ = false;
    return thread_.joinable() && !splitting_ && (queue_.empty() || !leaving_);
  }

  /// Queues a collective that all ranks enter in the same order.
  void queue(Call call, std::shared_ptr<Operation> operation, std::function<void()> exchange) {
    std::vector<Entered> before = order->enter(name);
    put({call, std::move(before), std::move(operation), std::move(exchange)});
  }
  void put(Task task) {
    const std::lock_guard lock(mutex_);
    task.call.number = ++calls_;
    queue_.push_back(std::move(task));
    changed_.notify_all();
  }

  /// Rank 0 is given each rank's bytes in turn, its own last; then all are given what it made of
  /// them.
  template <class Add>
  void through_rank_0(const void* mine, std::size_t bytes, void* result, std::size_t result_bytes,
                      const Add& add) const {
    if (rank != 0) {
      sockets_.give(0, mine, bytes);
      return sockets_.take(0, result, result_bytes);
    }
    std::vector<std::byte> theirs(bytes);
    for (int other = 1; other < size; ++other) {
      sockets_.take(other, theirs.data(), bytes);
      add(other, theirs.data());
    }
    for (int other = 1; other < size; ++other) sockets_.give(other, result, result_bytes);
  }

  /// A split counts as one.
  void start_split(std::function<void()> exchange) {
    queue({.name = "split"}, std::make_shared<Operation>(std::vector<Access>{}, Operations{}),
          std::move(exchange));
    const std::lock_guard lock(mutex_);
    splitting_ = true;
  }
  void start_leave() {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  /// Ends what is under way; the destructor waits for nobody then.
  void abort() {
    const std::lock_guard lock(mutex_);
    const Error why(ErrorKind::kPeer, "NCCL: the communicator was aborted");
    if (!failure_) failure_ = why;
    for (const Task& task : queue_) task.operation->fail(why);
    sockets_.cut();
  }

  const std::string name;
  const int rank, size;
  const std::shared_ptr<Order> order;
  int splits = 0;  ///< that were started

 private:
  /// Rank 0 compares what all ranks are at.
  void compare(const Task& task) const {
    std::uint64_t count = task.before.size();
    if (rank != 0) {
      sockets_.give(0, &task.call, sizeof task.call);
      sockets_.give(0, &count, sizeof count);
      return sockets_.give(0, task.before.data(), count * sizeof(Entered));
    }
    OrderCheck check(task.call);
    check.add(0, task.before);
    for (int other = 1; other < size; ++other) {
      Call call;
      sockets_.take(other, &call, sizeof call);
      sockets_.take(other, &count, sizeof count);
      std::vector<Entered> before(count);
      sockets_.take(other, before.data(), count * sizeof(Entered));
      if (call != task.call)
        fail(fmt::format("rank {} is at {}, but rank 0 at {}", other, call.text(),
                         task.call.text()));
      check.add(other, before);
    }
  }

  /// The body of the thread.
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Task& task = queue_.front();
      const std::optional<Error> failed_before = failure_;
      lock.unlock();
      try {
        if (failed_before) throw Error(*failed_before);
        compare(task);  // at once: ranks may wait for their turn in vain if their orders differ
        task.operation->wait_for_its_turn();
        task.exchange();
        task.operation->finish();
        lock.lock();
      } catch (const Error& error) {
        sockets_.cut();  // the peers need not wait for this rank
        task.operation->fail(error);
        lock.lock();
        failed_.push_back(task.operation);
        if (!failure_) failure_ = error;
      }
      queue_.pop_front();
    }
  }

  emulation::Sockets sockets_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Task> queue_;  ///< the first is under way
  std::vector<std::shared_ptr<Operation>> failed_;
  std::optional<Error> failure_;
  std::uint64_t calls_ = 0;
  bool splitting_ = false, leaving_ = false, ending_ = false;
  std::thread thread_;  ///< once connected
};

namespace {

std::shared_ptr<Operation> operation_of(CudaStreamState* stream,
                                        const std::vector<Access>& accesses) {
  return emulation::queue_operation(stream->use(), accesses);
}

template <class T>
void add_up(const CudaCommState& comm, T* values, std::size_t count) {
  comm.through_rank_0(values, count * sizeof(T), values, count * sizeof(T),
                      [&](int, const std::byte* theirs) {
                        for (std::size_t i = 0; i < count; ++i) {
                          T value;
                          std::memcpy(&value, theirs + i * sizeof(T), sizeof value);
                          values[i] += value;
                        }
                      });
}

/// Calls fn(a value of the type).
template <class Fn>
void visit(DType type, const Fn& fn) {
  type == DType::kF64 ? fn(double()) : visit_element(type, fn);
}

CudaResult sum(CudaCommState* comm, void* values, std::size_t count, DType type,
               CudaStreamState* stream) {
  return guarded([&] {
    visit(type, [&]<class T>(T) {
      const Call call{
          .name = "sum", .bytes = count * sizeof(T), .detail = static_cast<std::uint64_t>(type)};
      comm->queue(call, operation_of(stream, {{values, call.bytes, true}}),
                  [=] { add_up(*comm, static_cast<T*>(values), count); });
    });
  });
}

using Parts = std::vector<OwnedRange>;

std::size_t elements_of(const Parts& parts) {
  return parts.empty() ? 0 : static_cast<std::size_t>(parts.back().elements.end);
}

std::uint64_t hash_of(const Parts& parts) {
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
    const Parts all(parts, parts + num_parts);
    const std::size_t count = elements_of(all);
    visit(type, [&]<class T>(T) {
      const Call call{.name = "reduce-scatter",
                      .bytes = count * sizeof(T),
                      .detail = hash_of(all) + static_cast<std::uint64_t>(type)};
      comm->queue(call, operation_of(stream, {{values, call.bytes, true}}), [=] {
        T* const typed = static_cast<T*>(values);
        add_up(*comm, typed, count);
        for (const auto& [elements, rank] : all)
          if (rank != comm->rank)
            std::fill(typed + elements.begin, typed + elements.end,
                      T(std::numeric_limits<float>::quiet_NaN()));
      });
    });
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
  return guarded(
      [&] { *out = new CudaCommState(id->bytes, rank, size, std::make_shared<Order>()); });
}

/// What a rank asks a split for.
struct Place {
  int color, rank, size;
};

/// Whether the ranks of each color are those of a group.
void require_groups(std::span<const Place> places) {
  std::map<int, std::vector<int>> groups;
  for (const Place& place : places)
    if (place.color >= 0) groups[place.color].push_back(place.rank);
  for (const Place& place : places) {
    if (place.color < 0) continue;
    std::vector<int>& ranks = groups[place.color];
    std::ranges::sort(ranks);
    for (int rank = 0; rank < place.size; ++rank)
      if (std::ssize(ranks) != place.size || ranks[static_cast<std::size_t>(rank)] != rank)
        fail(fmt::format("the ranks of color {} of a split are {}, but one expects {} of them",
                         place.color, fmt::join(ranks, " "), place.size));
  }
}

CudaResult start_split(CudaCommState* comm, int color, int rank, int size, CudaCommState** out) {
  return guarded([&] {
    const std::string name = fmt::format("{}.{}.{}", comm->name, ++comm->splits, color);
    *out = color < 0 ? nullptr : new CudaCommState(name, rank, size, comm->order);
    comm->start_split([comm, mine = Place{color, rank, size}] {
      std::vector<Place> all(static_cast<std::size_t>(comm->size));
      all[static_cast<std::size_t>(comm->rank)] = mine;
      comm->through_rank_0(&mine, sizeof mine, all.data(), all.size() * sizeof mine,
                           [&](int other, const std::byte* theirs) {
                             std::memcpy(&all[static_cast<std::size_t>(other)], theirs,
                                         sizeof mine);
                           });
      require_groups(all);
    });
  });
}

CudaResult poll(CudaCommState* comm, bool* ready) {
  return guarded([&] { *ready = comm->poll(); });
}

CudaResult all_gather(CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                      CudaStreamState* stream) {
  return guarded([&] {
    const std::size_t all_bytes = bytes * static_cast<std::size_t>(comm->size);
    comm->queue({.name = "all-gather", .bytes = bytes},
                operation_of(stream, {{mine, bytes, false}, {all, all_bytes, true}}), [=] {
                  const auto put = [&](int rank, const void* from) {
                    std::memcpy(
                        static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes, from,
                        bytes);
                  };
                  put(comm->rank, mine);
                  comm->through_rank_0(mine, bytes, all, all_bytes, put);
                });
  });
}

CudaResult broadcast(CudaCommState* comm, void* memory, std::size_t bytes, int root,
                     CudaStreamState* stream) {
  return guarded([&] {
    const Call call{
        .name = "broadcast", .bytes = bytes, .detail = static_cast<std::uint64_t>(root)};
    const bool writes = comm->rank != root;  // there it only reads
    comm->put({call, {}, operation_of(stream, {{memory, bytes, writes}}), [=] {
                 comm->through_rank_0(memory, bytes, memory, bytes,
                                      [&](int rank, const std::byte* theirs) {
                                        if (rank == root) std::memcpy(memory, theirs, bytes);
                                      });
               }});
  });
}

CudaResult all_gather_parts(CudaCommState* comm, void* memory, const OwnedRange* parts,
                            std::size_t num_parts, CudaStreamState* stream) {
  return guarded([&] {
    const Parts all(parts, parts + num_parts);
    const std::size_t bytes = elements_of(all);
    const Call call{.name = "all-gather of parts", .bytes = bytes, .detail = hash_of(all)};
    comm->queue(call, operation_of(stream, {{memory, bytes, true}}), [=] {
      comm->through_rank_0(memory, bytes, memory, bytes, [&](int peer, const std::byte* theirs) {
        for (const auto& [part, rank] : all)
          if (rank == peer)
            std::memcpy(static_cast<std::byte*>(memory) + part.begin, theirs + part.begin,
                        static_cast<std::size_t>(part.size()));
      });
    });
  });
}

CudaResult exchange_parts(CudaCommState* comm, const void* values, DType type,
                          const OwnedRange* parts, std::size_t num_parts, void* received,
                          CudaStreamState* stream) {
  return guarded([&] {
    const Parts all(parts, parts + num_parts);
    const std::size_t size = size_of(type);
    std::int64_t end = 0;
    for (const OwnedRange& part : all) end = std::max(end, part.elements.end);
    const std::size_t bytes = static_cast<std::size_t>(end) * size;
    const auto own = static_cast<std::size_t>(own_elements(all, comm->rank)) * size;
    const Call call{.name = "exchange of parts",
                    .bytes = bytes,
                    .detail = hash_of(all) + static_cast<std::uint64_t>(type)};
    comm->queue(
        call,
        operation_of(stream, {{values, bytes, false},
                              {received, own * (static_cast<std::size_t>(comm->size) - 1), true}}),
        [=] {
          const auto ranks = static_cast<std::size_t>(comm->size);
          std::vector<std::byte> of_all(ranks * bytes);
          const auto put = [&](int rank, const void* from) {
            std::memcpy(of_all.data() + static_cast<std::size_t>(rank) * bytes, from, bytes);
          };
          put(comm->rank, values);
          comm->through_rank_0(values, bytes, of_all.data(), of_all.size(), put);
          std::byte* to = static_cast<std::byte*>(received);
          for (std::size_t rank = 0; rank < ranks; ++rank)
            for (const auto& [elements, owner] : all)
              if (owner == comm->rank && static_cast<int>(rank) != owner)
                to = std::copy_n(
                    of_all.data() + rank * bytes + static_cast<std::size_t>(elements.begin) * size,
                    static_cast<std::size_t>(elements.size()) * size, to);
        });
  });
}

CudaResult add_received_parts(CudaCommState* comm, void* values, DType type,
                              const OwnedRange* parts, std::size_t num_parts, const void* received,
                              CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    const std::size_t size = size_of(type);
    const auto of_peers =
        static_cast<std::size_t>(own_elements(all, comm->rank) * (comm->size - 1)) * size;
    std::vector<Access> accesses{{received, of_peers, false}};
    for (const auto& [elements, rank] : all)
      if (rank == comm->rank)
        accesses.push_back(
            {static_cast<std::byte*>(values) + static_cast<std::size_t>(elements.begin) * size,
             static_cast<std::size_t>(elements.size()) * size, true});
    emulation::note(stream->use(), accesses);
    add_received({values, received, type, comm->rank, comm->size}, all, *stream);
  });
}

CudaResult start_leave(CudaCommState* comm) {
  return guarded([&] { comm->start_leave(); });
}

CudaResult destroy(CudaCommState* comm) {
  delete comm;
  return nullptr;
}

CudaResult abort(CudaCommState* comm) {
  comm->abort();
  return destroy(comm);
}

}  // namespace

const CudaCommTable* cuda_comm_table() {
  static constexpr CudaCommTable kTable = {
      .make_id = make_id,
      .start_connect = start_connect,
      .start_split = start_split,
      .poll = poll,
      .all_gather = all_gather,
      .sum = sum,
      .broadcast = broadcast,
      .reduce_scatter = reduce_scatter,
      .all_gather_parts = all_gather_parts,
      .exchange_parts = exchange_parts,
      .add_received_parts = add_received_parts,
      .start_leave = start_leave,
      .destroy = destroy,
      .abort = abort,
  };
  return &kTable;
}

}  // namespace hgt
