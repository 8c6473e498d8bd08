#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include <asio/io_context.hpp>

#include "hgtrain/base/task_pool.h"

namespace hgt {

/// Writes files on a thread of its own: a disk may stand still (a file server that fails over), and
/// heartbeats and signals must not wait for that.
class WriterThread {
 public:
  static constexpr std::size_t kFullBytes = 1 << 20;

  /// `has_room` is called on the loop when is_full() has become false.
  WriterThread(asio::io_context& io, std::function<void()> has_room);
  /// Waits until all is written.
  ~WriterThread();

  /// Runs `task`, which writes `bytes`, on the thread, after those before it. The loop does not run
  /// out of work until then.
  void add(std::size_t bytes, std::function<void()> task);
  /// Calls `report` on the loop; for tasks.
  void post(std::function<void()> report);
  /// So much waits to be written that nobody should read more output.
  bool is_full() const { return waiting_bytes_ > kFullBytes; }

 private:
  asio::io_context& io_;
  const std::function<void()> has_room_;
  std::atomic<std::size_t> waiting_bytes_ = 0;
  TaskPool thread_{1};
};

}  // namespace hgt
