#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda_comm_table.h"
#include "support/fake_cuda.h"

// NCCL over the fake CUDA module: collectives wait on their streams for the ranks that have not
// come.

namespace hgt {
namespace fake_cuda {

struct Operand {
  const void* in = nullptr;
  void* out = nullptr;
};

/// The ranks of one group and the collectives they have entered.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t size = 0, connected = 0;
  std::set<int> aborted;
  std::map<int, std::vector<Operand>> meetings;  ///< by the collective's number
};

inline std::map<std::string, std::shared_ptr<Group>> g_groups;
/// Ranks that are said to have connected but come to no collective.
inline std::size_t g_absent = 0;

}  // namespace fake_cuda

struct CudaCommState {
  std::shared_ptr<fake_cuda::Group> group;
  int rank = 0, next = 0;
};

namespace fake_cuda {

/// Queues a collective: when the streams of all ranks are there, the last does `work` with the
/// operands of all, in rank order. The stream of a rank that aborted goes on at once.
inline CudaResult meet(CudaCommState* comm, Operand operand, CudaStreamState* stream,
                       std::function<void(const std::vector<Operand>&)> work) {
  stream->add([group = comm->group, rank = comm->rank, number = comm->next++, operand, work] {
    std::unique_lock lock(group->mutex);
    std::vector<Operand>& ranks = group->meetings[number];
    ranks.resize(group->size);
    ranks[static_cast<std::size_t>(rank)] = operand;
    const auto all_there = [&] {
      return std::all_of(ranks.begin(), ranks.end(),
                         [](const Operand& x) { return x.out != nullptr; });
    };
    if (all_there()) work(ranks);
    group->changed.notify_all();
    group->changed.wait(lock, [&] { return all_there() || group->aborted.count(rank) != 0; });
  });
  return nullptr;
}

template <class T>
CudaResult sum(CudaCommState* comm, T* values, std::size_t count, CudaStreamState* stream) {
  return meet(comm, {values, values}, stream, [count](const std::vector<Operand>& ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      T total = 0;
      for (const Operand& rank : ranks) total += static_cast<const T*>(rank.in)[i];
      for (const Operand& rank : ranks) static_cast<T*>(rank.out)[i] = total;
    }
  });
}

inline const CudaCommTable& comm_table() {
  static const CudaCommTable table = [] {
    CudaCommTable t{};
    t.make_id = [](CudaCommId* out) -> CudaResult {
      static int made = 0;
      const std::lock_guard lock(g_mutex);
      std::memset(out->bytes, 0, sizeof out->bytes);
      std::snprintf(out->bytes, sizeof out->bytes, "group %d", ++made);
      g_groups[out->bytes] = std::make_shared<Group>();
      return nullptr;
    };
    t.start_connect = [](const CudaCommId* id, int rank, int size, int,
                         CudaCommState** out) -> CudaResult {
      const std::lock_guard lock(g_mutex);
      const auto group = g_groups.at(id->bytes);
      const std::lock_guard group_lock(group->mutex);
      group->size = static_cast<std::size_t>(size);
      ++group->connected;
      *out = new CudaCommState{group, rank, 0};
      return nullptr;
    };
    t.poll = [](CudaCommState* comm, bool* ready) -> CudaResult {
      static const CudaFailure gone{static_cast<int>(ErrorKind::kPeer), "NCCL: a rank has gone", "",
                                    ""};
      const std::lock_guard lock(comm->group->mutex);
      if (!comm->group->aborted.empty()) return &gone;
      *ready = comm->group->connected + g_absent >= comm->group->size;
      return nullptr;
    };
    t.all_gather = [](CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                      CudaStreamState* stream) -> CudaResult {
      return meet(comm, {mine, all}, stream, [bytes](const std::vector<Operand>& ranks) {
        for (const Operand& to : ranks)
          for (std::size_t from = 0; from < ranks.size(); ++from)
            std::memcpy(static_cast<std::byte*>(to.out) + from * bytes, ranks[from].in, bytes);
      });
    };
    t.sum_f32 = sum<float>;
    t.sum_f64 = sum<double>;
    t.broadcast = [](CudaCommState* comm, void* memory, std::size_t bytes, int root,
                     CudaStreamState* stream) -> CudaResult {
      return meet(comm, {memory, memory}, stream, [=](const std::vector<Operand>& ranks) {
        const void* const from = ranks[static_cast<std::size_t>(root)].in;
        for (const Operand& to : ranks) std::memmove(to.out, from, bytes);
      });
    };
    t.start_leave = [](CudaCommState*) -> CudaResult { return nullptr; };
    t.destroy = [](CudaCommState* comm) -> CudaResult {
      delete comm;
      return nullptr;
    };
    t.abort = [](CudaCommState* comm) -> CudaResult {
      {
        const std::lock_guard lock(comm->group->mutex);
        comm->group->aborted.insert(comm->rank);
        comm->group->changed.notify_all();
      }
      delete comm;
      return nullptr;
    };
    return t;
  }();
  return table;
}

}  // namespace fake_cuda
}  // namespace hgt
