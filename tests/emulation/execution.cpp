#include "execution.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "capture.h"
#include "cuda_runtime.h"
#include "device_memory.h"
#include "device_state.h"
#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace hgt::emulation {
namespace {

using Random = std::mt19937;

constexpr std::size_t kSharedBytesOfAnyKernel = 48 << 10;  ///< more must be asked for

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kDevice, "emulation: " + what);
}

std::string text(const uint3& at) {
  return fmt::format("({}, {}, {})", at.x, at.y, at.z);
}

std::string text(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

struct Thread {
  enum class State { kReady, kAtBarrier, kAtWarp, kEnded };

  uint3 index{};
  unsigned rank = 0;  ///< the ready one of the least rank runs
  State state = State::kReady;
  std::unique_ptr<Fiber> fiber;  ///< from its start to its end
  std::source_location where;    ///< what it waits at
  bool predicate = false;
  unsigned mask = 0;       ///< the lanes it waits for
  std::uint64_t bits = 0;  ///< what it comes with
  Lanes lanes{};           ///< what they came with
};

/// The block that runs.
class Block {
 public:
  Block(const dim3& size, const std::function<void()>& body, Random& random)
      : threads_(std::size_t{size.x} * size.y * size.z),
        by_rank_(threads_.size()),
        arrived_(threads_.size() / kWarpLanes + 1),
        body_(body),
        random_(random) {
    for (unsigned i = 0; i < count(); ++i)
      threads_[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  }

  void run(std::vector<std::unique_ptr<Fiber>>& idle);

  Votes wait_for_block(bool predicate, const std::source_location& where);
  const Lanes& wait_for_warp(unsigned mask, std::uint64_t bits, const std::source_location& where);
  unsigned lane() const { return current_ % kWarpLanes; }

  static void fiber_body();

 private:
  unsigned count() const { return static_cast<unsigned>(threads_.size()); }
  Thread& self() { return threads_[current_]; }
  void draw_order();
  void set_ready(Thread& thread);
  bool choose_next();
  void open_barrier();
  void meet_in_warp();
  [[noreturn]] void fail_stuck() const;

  std::vector<Thread> threads_;
  std::vector<unsigned> by_rank_;               ///< the thread of each rank
  std::array<std::uint64_t, 1024 / 64> ready_;  ///< a bit for each rank
  std::vector<unsigned> arrived_;               ///< of each warp, the lanes that wait for others
  const std::function<void()>& body_;
  Random& random_;
  unsigned current_ = 0, waiting_ = 0, ended_ = 0;
  Votes votes_{};
  std::exception_ptr failure_;
};

Block* g_block = nullptr;
void* g_dynamic_shared = nullptr;

/// Ranks for all threads; those that are ready stay so.
void Block::draw_order() {
  const unsigned warps = (count() + kWarpLanes - 1) / kWarpLanes;
  std::vector<unsigned> order(warps);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random_);
  auto rank = by_rank_.begin();
  for (const unsigned warp : order) {
    const auto begin = rank;
    for (unsigned t = warp * kWarpLanes; t < std::min(count(), (warp + 1) * kWarpLanes); ++t)
      *rank++ = t;
    std::shuffle(begin, rank, random_);
  }
  ready_.fill(0);
  for (unsigned r = 0; r < count(); ++r) {
    Thread& thread = threads_[by_rank_[r]];
    thread.rank = r;
    if (thread.state == Thread::State::kReady) set_ready(thread);
  }
}

void Block::set_ready(Thread& thread) {
  thread.state = Thread::State::kReady;
  ready_[thread.rank / 64] |= std::uint64_t{1} << thread.rank % 64;
}

/// False if no thread can run; else it is the current one.
bool Block::choose_next() {
  for (std::size_t word = 0; word < ready_.size(); ++word)
    if (ready_[word] != 0) {
      const auto rank = word * 64 + static_cast<std::size_t>(std::countr_zero(ready_[word]));
      current_ = by_rank_[rank];
      ready_[word] &= ready_[word] - 1;  // until it is made ready again
      return true;
    }
  return false;
}

/// Runs on a fiber: threads one after the other, as they are given to it.
void Block::fiber_body() {
  while (true) {
    Block& block = *g_block;
    try {
      block.body_();
    } catch (...) {
      block.failure_ = std::current_exception();
    }
    block.self().state = Thread::State::kEnded;
    block.self().fiber->suspend();
  }
}

void Block::run(std::vector<std::unique_ptr<Fiber>>& idle) {
  draw_order();
  while (ended_ < count()) {
    if (!choose_next()) fail_stuck();
    Thread& thread = self();
    if (!thread.fiber) {
      if (idle.empty()) idle.push_back(std::make_unique<Fiber>(fiber_body));
      thread.fiber = std::move(idle.back());
      idle.pop_back();
    }
    threadIdx = thread.index;
    thread.fiber->resume();
    if (failure_) std::rethrow_exception(failure_);
    if (thread.state == Thread::State::kEnded) {
      idle.push_back(std::move(thread.fiber));
      ++ended_;
    }
    if (waiting_ > 0 && waiting_ + ended_ == count()) open_barrier();
  }
}

Votes Block::wait_for_block(bool predicate, const std::source_location& where) {
  self().predicate = predicate;
  self().state = Thread::State::kAtBarrier;
  self().where = where;
  ++waiting_;
  self().fiber->suspend();
  return votes_;
}

void Block::open_barrier() {
  votes_ = {0, static_cast<int>(waiting_)};
  const Thread* first = nullptr;
  for (Thread& thread : threads_) {
    if (thread.state != Thread::State::kAtBarrier) continue;
    if (first == nullptr) first = &thread;
    if (!same(first->where, thread.where))
      fail(fmt::format("thread {} waits at {}, thread {} at {}", text(first->index),
                       text(first->where), text(thread.index), text(thread.where)));
    votes_.yes += thread.predicate;
  }
  for (Thread& thread : threads_)
    if (thread.state == Thread::State::kAtBarrier) thread.state = Thread::State::kReady;
  waiting_ = 0;
  draw_order();
}

const Lanes& Block::wait_for_warp(unsigned mask, std::uint64_t bits,
                                  const std::source_location& where) {
  Thread& me = self();
  if ((mask >> lane() & 1) == 0)
    fail(fmt::format("{}: a mask without the lane that uses it", text(where)));
  const unsigned lanes = std::min(kWarpLanes, count() - (current_ - lane()));
  const unsigned there = ~0u >> (kWarpLanes - lanes);
  if (mask == ~0u) mask = there;  // the last warp of a block may be a part of one
  if ((mask & ~there) != 0)
    fail(fmt::format("{}: the mask {:#x} names lanes beyond the {} there are", text(where), mask,
                     lanes));
  me.mask = mask;
  me.bits = bits;
  me.state = Thread::State::kAtWarp;
  me.where = where;
  unsigned& arrived = arrived_[current_ / kWarpLanes];
  arrived |= 1u << lane();
  if ((arrived & mask) == mask) meet_in_warp();
  me.fiber->suspend();
  return me.lanes;
}

/// The current thread is the last of its mask: all of them continue, if all came to meet here.
void Block::meet_in_warp() {
  const Thread& me = self();
  Thread* const warp = &threads_[current_ - lane()];
  Lanes brought;
  brought.fill(~std::uint64_t{0});
  for (unsigned i = 0; i < kWarpLanes; ++i) {
    if ((me.mask >> i & 1) == 0) continue;
    if (warp[i].mask != me.mask || !same(warp[i].where, me.where)) return;
    brought[i] = warp[i].bits;
  }
  for (unsigned i = 0; i < kWarpLanes; ++i)
    if (me.mask >> i & 1) {
      warp[i].lanes = brought;
      set_ready(warp[i]);
    }
  arrived_[current_ / kWarpLanes] &= ~me.mask;
}

void Block::fail_stuck() const {
  std::string waiting;
  int named = 0;
  for (const Thread& thread : threads_)
    if (thread.state != Thread::State::kEnded && named++ < 4)
      waiting += fmt::format("; thread {} at {}", text(thread.index), text(thread.where));
  fail(fmt::format("in block {} {} threads wait for ever, {} have ended{}", text(blockIdx),
                   count() - ended_, ended_, waiting));
}

/// The static shared variables of the kernels: `__shared__` is thread_local, and nothing else of
/// this module is. So they are the module's block of thread-local storage.
struct SharedVariables {
  void* memory = nullptr;
  std::size_t bytes = 0;
};
thread_local char g_anchor;  // using it makes the block

int find_shared(dl_phdr_info* info, std::size_t, void* out) {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_shared);
  SharedVariables found{info->dlpi_tls_data, 0};
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_TLS) found.bytes = part.p_memsz;
    if (part.p_type == PT_LOAD && here >= begin && here < begin + part.p_memsz) ours = true;
  }
  if (ours) *static_cast<SharedVariables*>(out) = found;
  return ours;
}

SharedVariables shared_variables() {
  *static_cast<volatile char*>(&g_anchor) = 0;
  SharedVariables found;
  dl_iterate_phdr(find_shared, &found);
  return found;
}

void check_launch(const dim3& grid, const dim3& block, std::size_t shared_bytes,
                  std::size_t max_shared_bytes) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64)
    fail(fmt::format("a block of {} x {} x {} threads", block.x, block.y, block.z));
  if (grid.x > 2147483647 || grid.y > 65535 || grid.z > 65535)
    fail(fmt::format("a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z));
  if (shared_bytes > max_shared_bytes)
    fail(fmt::format("{} bytes of dynamic shared memory, {} are allowed", shared_bytes,
                     max_shared_bytes));
}

/// The numbers of the blocks, in the order in which they run.
std::vector<std::uint64_t> order_of_blocks(const dim3& grid, Random& random) {
  constexpr std::uint64_t kAtEachEnd = 8;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  const bool all = blocks <= std::max(device_state.most_blocks, 2 * kAtEachEnd);
  std::vector<std::uint64_t> order(all ? blocks : 2 * kAtEachEnd);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  if (!all) std::iota(order.end() - kAtEachEnd, order.end(), blocks - kAtEachEnd);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace

void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes,
              std::size_t max_shared_bytes, const std::function<void()>& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static Random random([] {
    const char* const seed = std::getenv("HGTRAIN_EMULATION_SEED");
    return seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 1u;
  }());
  static std::vector<std::unique_ptr<Fiber>> idle;

  check_launch(grid, block, shared_bytes, max_shared_bytes);
  device_state.clock_us += 1;
  const SharedVariables variables = shared_variables();
  const std::unique_ptr<void, void (*)(void*)> dynamic(allocate(shared_bytes), release);
  g_dynamic_shared = dynamic.get();
  gridDim = grid;
  blockDim = block;
  for (const std::uint64_t b : order_of_blocks(grid, random)) {
    std::memset(variables.memory, kUninitialised, variables.bytes);
    std::memset(dynamic.get(), kUninitialised, shared_bytes);
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    Block running(block, body, random);
    g_block = &running;
    running.run(idle);
  }
  check_bands();
}

void load(const void* kernel) {
  static std::mutex mutex;
  static std::set<const void*> loaded;
  std::unique_lock lock(mutex);
  if (loaded.contains(kernel)) return;
  lock.unlock();
  forbid_in_capture("loading a kernel, which is launched for the first time");
  if (!are_over_of_this_thread()) {
    std::fputs("emulation: loading a kernel waits for collectives\n", stderr);
    wait_until_over_of_this_thread();
  }
  lock.lock();
  loaded.insert(kernel);
}

std::size_t& max_shared_bytes(const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, std::size_t> bytes;
  const std::lock_guard lock(mutex);  // ranks may be threads that launch their kernels at once
  return bytes.try_emplace(kernel, kSharedBytesOfAnyKernel).first->second;
}

void* dynamic_shared_memory() {
  return g_dynamic_shared;
}

Votes wait_for_block(bool predicate, const std::source_location& where) {
  return g_block->wait_for_block(predicate, where);
}

const Lanes& wait_for_warp(unsigned mask, std::uint64_t bits, const std::source_location& where) {
  return g_block->wait_for_warp(mask, bits, where);
}

unsigned lane() {
  return g_block->lane();
}

}  // namespace hgt::emulation
