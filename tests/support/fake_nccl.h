#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "hgtrain/base/element.h"

#include "cuda_comm_table.h"
#include "support/fake_cuda.h"

// NCCL over the fake CUDA module: collectives wait on their streams for the ranks that have not
// come. If ranks make different calls, it fails; the real NCCL would hang or mix up their memory.

namespace hgt {
namespace fake_cuda {

struct Operand {
  const void* in = nullptr;
  void* out = nullptr;
  std::string call = {};  ///< all ranks must make the same
};

/// The ranks of one group and the collectives they have entered.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t size = 0, connected = 0;
  std::set<int> aborted;
  bool calls_differ = false;
  std::map<int, std::vector<Operand>> meetings;  ///< by the collective's number
};

inline std::map<std::string, std::shared_ptr<Group>> g_groups;
/// Ranks that are said to have connected but come to no collective.
inline std::size_t g_absent = 0;

}  // namespace fake_cuda

struct CudaCommState {
  std::string name;
  std::shared_ptr<fake_cuda::Group> group;
  int rank = 0, next = 0, splits = 0;
};

namespace fake_cuda {

/// Queues a collective: when the streams of all ranks are there, the last does `work` with the
/// operands of all, in rank order. The stream of a rank that aborted continues at once.
inline CudaResult meet(CudaCommState* comm, const Operand& operand, CudaStreamState* stream,
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
    for (const Operand& x : ranks)
      group->calls_differ |= x.out != nullptr && x.call != operand.call;
    const auto met = [&] { return all_there() && !group->calls_differ; };
    if (met()) work(ranks);
    group->changed.notify_all();
    group->changed.wait(lock, [&] { return met() || group->aborted.count(rank) != 0; });
  });
  return nullptr;
}

template <class T>
CudaResult sum_of(CudaCommState* comm, T* values, std::size_t count, CudaStreamState* stream) {
  const std::string call = "sum of " + std::to_string(count) + " x " + std::to_string(sizeof(T));
  return meet(comm, {values, values, call}, stream, [count](const std::vector<Operand>& ranks) {
    for (std::size_t i = 0; i < count; ++i) {
      T total = T(0.0f);
      for (const Operand& rank : ranks) total += static_cast<const T*>(rank.in)[i];
      for (const Operand& rank : ranks) static_cast<T*>(rank.out)[i] = total;
    }
  });
}

inline CudaResult sum(CudaCommState* comm, void* values, std::size_t count, DType type,
                      CudaStreamState* stream) {
  CudaResult result = nullptr;
  const auto as = [&]<class T>(T) {
    result = sum_of(comm, static_cast<T*>(values), count, stream);
  };
  type == DType::kF64 ? as(double()) : visit_element(type, as);
  return result;
}

inline std::string text_of(const std::vector<OwnedRange>& parts) {
  std::string text;
  for (const auto& [elements, rank] : parts)
    text += " " + std::to_string(elements.end) + " of " + std::to_string(rank);
  return text;
}

/// What a rank does not own becomes NaN.
template <class T>
CudaResult reduce_scatter_of(CudaCommState* comm, T* values, const std::vector<OwnedRange>& all,
                             CudaStreamState* stream) {
  const std::string call = "reduce-scatter x " + std::to_string(sizeof(T)) + text_of(all);
  return meet(comm, {values, values, call}, stream, [all](const std::vector<Operand>& ranks) {
    for (const auto& [elements, owner] : all)
      for (std::int64_t i = elements.begin; i < elements.end; ++i) {
        T total = T(0.0f);
        for (const Operand& rank : ranks) {
          total += static_cast<const T*>(rank.in)[i];
          static_cast<T*>(rank.out)[i] = T(std::numeric_limits<float>::quiet_NaN());
        }
        static_cast<T*>(ranks[static_cast<std::size_t>(owner)].out)[i] = total;
      }
  });
}

inline CudaResult reduce_scatter(CudaCommState* comm, void* values, DType type,
                                 const OwnedRange* parts, std::size_t num_parts,
                                 CudaStreamState* stream) {
  const std::vector<OwnedRange> all(parts, parts + num_parts);
  CudaResult result = nullptr;
  const auto as = [&]<class T>(T) {
    result = reduce_scatter_of(comm, static_cast<T*>(values), all, stream);
  };
  type == DType::kF64 ? as(double()) : visit_element(type, as);
  return result;
}

inline CudaResult all_gather_parts(CudaCommState* comm, void* memory, const OwnedRange* parts,
                                   std::size_t num_parts, CudaStreamState* stream) {
  const std::vector<OwnedRange> all(parts, parts + num_parts);
  return meet(comm, {memory, memory, "all-gather" + text_of(all)}, stream,
              [all](const std::vector<Operand>& ranks) {
                for (const auto& [elements, owner] : all)
                  for (const Operand& to : ranks)
                    std::memmove(
                        static_cast<std::byte*>(to.out) + elements.begin,
                        static_cast<const std::byte*>(ranks[static_cast<std::size_t>(owner)].in) +
                            elements.begin,
                        static_cast<std::size_t>(elements.size()));
              });
}

/// A rank comes to the group of that name, which the first one makes.
inline CudaCommState* join(const std::string& name, int rank, int size) {
  const std::lock_guard lock(g_mutex);
  std::shared_ptr<Group>& group = g_groups[name];
  if (!group) group = std::make_shared<Group>();
  const std::lock_guard group_lock(group->mutex);
  group->size = static_cast<std::size_t>(size);
  ++group->connected;
  return new CudaCommState{name, group, rank};
}

inline const CudaCommTable& comm_table() {
  static const CudaCommTable table = [] {
    CudaCommTable t{};
    t.make_id = [](CudaCommId* out) -> CudaResult {
      static int made = 0;
      const std::lock_guard lock(g_mutex);
      std::memset(out->bytes, 0, sizeof out->bytes);
      std::snprintf(out->bytes, sizeof out->bytes, "group %d", ++made);
      return nullptr;
    };
    t.start_connect = [](const CudaCommId* id, int rank, int size, int,
                         CudaCommState** out) -> CudaResult {
      *out = join(id->bytes, rank, size);
      return nullptr;
    };
    t.start_split = [](CudaCommState* comm, int color, int rank, int size,
                       CudaCommState** out) -> CudaResult {
      const std::string name = comm->name + "." + std::to_string(++comm->splits);
      *out = color < 0 ? nullptr : join(name + "." + std::to_string(color), rank, size);
      return nullptr;
    };
    t.poll = [](CudaCommState* comm, bool* ready) -> CudaResult {
      static const CudaFailure gone{static_cast<int>(ErrorKind::kPeer), "NCCL: a rank has gone", "",
                                    ""};
      static const CudaFailure differ{static_cast<int>(ErrorKind::kPeer),
                                      "NCCL: ranks make different calls", "", ""};
      const std::lock_guard lock(comm->group->mutex);
      if (comm->group->calls_differ) return &differ;
      if (!comm->group->aborted.empty()) return &gone;
      *ready = comm->group->connected + g_absent >= comm->group->size;
      return nullptr;
    };
    t.all_gather = [](CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                      CudaStreamState* stream) -> CudaResult {
      return meet(
          comm, {mine, all, "all-gather"}, stream, [bytes](const std::vector<Operand>& ranks) {
            for (const Operand& to : ranks)
              for (std::size_t from = 0; from < ranks.size(); ++from)
                std::memcpy(static_cast<std::byte*>(to.out) + from * bytes, ranks[from].in, bytes);
          });
    };
    t.sum = sum;
    t.broadcast = [](CudaCommState* comm, void* memory, std::size_t bytes, int root,
                     CudaStreamState* stream) -> CudaResult {
      return meet(comm, {memory, memory, "broadcast"}, stream,
                  [=](const std::vector<Operand>& ranks) {
                    const void* const from = ranks[static_cast<std::size_t>(root)].in;
                    for (const Operand& to : ranks) std::memmove(to.out, from, bytes);
                  });
    };
    t.reduce_scatter = reduce_scatter;
    t.all_gather_parts = all_gather_parts;
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
