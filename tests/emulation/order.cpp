#include "order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "capture.h"

namespace hgt::emulation {
namespace {

/// A stream's work of some moment.
struct Moment {
  int stream = -1;  ///< -1: nobody's
  std::uint64_t at = 0;
  bool before(const Clock& clock) const {
    const auto found = clock.find(stream);
    return stream < 0 || (found != clock.end() && found->second >= at);
  }
};

/// What was done last to a stretch of memory.
struct Stretch {
  std::uintptr_t end;
  Moment written;
  std::map<int, std::uint64_t> read = {};  ///< by each stream
};

/// A copy between page-locked memory and a device, which the host has not waited for yet.
struct Copy {
  Moment moment;
  std::byte* host;
  std::vector<std::byte> values;
  bool to_host;
};

std::mutex g_mutex;
Clock g_host;
std::uint64_t g_time = 0;
std::map<std::uintptr_t, Stretch> g_memory;
std::vector<Copy> g_copies;

void join(Clock& into, const Clock& clock) {
  for (const auto& [stream, at] : clock) into[stream] = std::max(into[stream], at);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "emulation: %s\n", what.c_str());
  throw Error(ErrorKind::kInternal, "emulation: " + what);
}

/// Makes `at` a boundary of stretches.
void split(std::uintptr_t at) {
  auto found = g_memory.upper_bound(at);
  if (found == g_memory.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  g_memory.emplace(at, found->second);
  found->second.end = at;
}

/// Calls fn for every stretch of [begin, end), made if there is none.
template <class Fn>
void for_stretches(std::uintptr_t begin, std::uintptr_t end, const Fn& fn) {
  split(begin);
  split(end);
  for (std::uintptr_t at = begin; at < end;) {
    auto found = g_memory.lower_bound(at);
    if (found == g_memory.end() || found->first != at) {
      const std::uintptr_t next = found == g_memory.end() ? end : std::min(end, found->first);
      found = g_memory.emplace(at, Stretch{next, {}}).first;
    }
    fn(found->second);
    at = found->second.end;
  }
}

void check_access(const Access& access, const Moment& moment, const Clock& clock) {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.memory);
  for_stretches(begin, begin + access.bytes, [&](Stretch& stretch) {
    if (!stretch.written.before(clock))
      fail(fmt::format("stream {} {} memory that stream {} writes, and waits for nothing",
                       moment.stream, access.writes ? "writes" : "reads", stretch.written.stream));
    if (!access.writes) {
      stretch.read[moment.stream] = moment.at;
      return;
    }
    for (const auto& [stream, at] : stretch.read)
      if (!Moment{stream, at}.before(clock))
        fail(fmt::format("stream {} writes memory that stream {} reads, and waits for nothing",
                         moment.stream, stream));
    stretch.written = moment;
    stretch.read.clear();
  });
}

/// The next moment of the stream, which comes after all that the host knows.
Moment advance(CUstream_st& stream) {
  join(stream.clock, g_host);
  const Moment moment{stream.id, ++g_time};
  stream.clock[stream.id] = moment.at;
  return moment;
}

/// The first one is number 0.
bool is_dropped(int stream, int event) {
  static const char* const wanted = std::getenv("HGTRAIN_EMULATION_DROP_WAIT");
  if (wanted == nullptr) return false;
  static std::vector<std::pair<int, int>> pairs;
  const std::pair pair(stream, event);
  auto found = std::find(pairs.begin(), pairs.end(), pair);
  if (found == pairs.end()) {
    found = pairs.insert(found, pair);
    if (found - pairs.begin() == std::atoi(wanted))
      std::fprintf(stderr, "emulation: stream %d does not wait for event %d\n", stream, event);
  }
  return found - pairs.begin() == std::atoi(wanted);
}

void finish(Copy& copy) {
  if (copy.to_host)
    std::memcpy(copy.host, copy.values.data(), copy.values.size());
  else if (std::memcmp(copy.host, copy.values.data(), copy.values.size()) != 0)
    fail("page-locked memory changed while it was copied to a device");
}

/// Copies that come before an access of the device to the same page-locked memory are over for it,
/// although the host has not waited for them.
void finish_before(const Access& access, const Clock& clock) {
  if (!is_pinned(access.memory)) return;
  const auto* const begin = static_cast<const std::byte*>(access.memory);
  std::erase_if(g_copies, [&](Copy& copy) {
    const bool over = copy.host < begin + access.bytes && begin < copy.host + copy.values.size() &&
                      (copy.to_host || access.writes) && copy.moment.before(clock);
    if (over) finish(copy);
    return over;
  });
}

/// A call that waited for what failed throws, but only once: then the stream continues.
void wait_for_pending(CUstream_st& stream) {
  wait_until_done(std::exchange(stream.pending, {}));
}

void check_all(CUstream_st& stream, const std::vector<Access>& accesses) {
  const Moment moment = advance(stream);
  for (const Access& access : accesses) {
    if (!access.memory || access.bytes == 0) continue;
    check_access(access, moment, stream.clock);
    finish_before(access, stream.clock);
  }
}

}  // namespace

void note(cudaStream_t stream, const std::vector<Access>& accesses) {
  const std::lock_guard lock(g_mutex);
  if (stream->captured) {
    auto& all = stream->captured->accesses;
    all.insert(all.end(), accesses.begin(), accesses.end());
  } else {
    check_all(*stream, accesses);
  }
}

void submit(cudaStream_t stream, std::function<void()> work) {
  if (stream && stream->captured) return stream->captured->work.push_back(std::move(work));
  if (stream) wait_for_pending(*stream);
  work();
}

std::shared_ptr<Operation> queue_operation(cudaStream_t stream,
                                           const std::vector<Access>& accesses) {
  if (stream->captured) fail("a collective is captured");
  note(stream, accesses);
  auto operation = std::make_shared<Operation>(accesses, std::move(stream->pending));
  stream->pending = {operation};
  return operation;
}

void submit_copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const bool to_pinned = is_pinned(to), from_pinned = is_pinned(from);
  const auto tracked = [](const void* memory) {
    return is_pinned(memory) || is_device_memory(memory) ? memory : nullptr;
  };
  if (stream->captured && (!tracked(to) || !tracked(from)))
    fail("a copy of memory that is not page-locked cannot be captured");
  note(stream, {{tracked(from), bytes, false}, {tracked(to), bytes, true}});
  if (stream->captured || to_pinned == from_pinned)
    return submit(stream, [=] { std::memmove(to, from, bytes); });
  wait_for_pending(*stream);
  const std::lock_guard lock(g_mutex);
  const auto* const values = static_cast<const std::byte*>(from);
  Copy copy{{stream->id, stream->clock.at(stream->id)}, {}, {values, values + bytes}, to_pinned};
  if (to_pinned)
    std::memset(to, kUninitialised, bytes);
  else
    std::memcpy(to, from, bytes);
  copy.host = static_cast<std::byte*>(to_pinned ? to : const_cast<void*>(from));
  g_copies.push_back(std::move(copy));
}

void launch(cudaStream_t stream, const Graph& graph) {
  forbid_of_captured(stream, "cudaGraphLaunch");
  note(stream, graph.accesses);
  for (const auto& work : graph.work) submit(stream, work);
}

void record(Event& event, cudaStream_t stream) {
  const std::lock_guard lock(g_mutex);
  if (stream->captured) fail("an event is recorded in a capture");
  (void)advance(*stream);
  event.recorded = true;
  event.clock = stream->clock;
  event.pending = stream->pending;
}

void wait(cudaStream_t stream, const Event& event) {
  const std::lock_guard lock(g_mutex);
  if (stream->captured) fail("an event is waited for in a capture");
  if (!event.recorded || is_dropped(stream->id, event.id)) return;
  join(stream->clock, event.clock);
  stream->pending.insert(stream->pending.end(), event.pending.begin(), event.pending.end());
}

void host_waits_for(const Clock& clock) {
  const std::lock_guard lock(g_mutex);
  join(g_host, clock);
  std::erase_if(g_copies, [](Copy& copy) {
    const bool over = copy.moment.before(g_host);
    if (over) finish(copy);
    return over;
  });
}

bool has_host_waited_for(const Clock& clock) {
  const std::lock_guard lock(g_mutex);
  return std::ranges::all_of(clock, [](const auto& entry) {
    return Moment{entry.first, entry.second}.before(g_host);
  });
}

void forget(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  split(begin);
  split(begin + bytes);
  g_memory.erase(g_memory.lower_bound(begin), g_memory.lower_bound(begin + bytes));
  std::erase_if(g_copies, [&](const Copy& copy) {
    const auto at = reinterpret_cast<std::uintptr_t>(copy.host);
    return at >= begin && at < begin + bytes;
  });
}

}  // namespace hgt::emulation
