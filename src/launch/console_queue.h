#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "hgtrain/base/owned_fd.h"

#include "output_sink.h"
#include "writer_thread.h"

namespace hgt {

/// This process's stdout and stderr, written without ever blocking the loop: a console that does
/// not take its text (a stopped terminal, a slow pipe, a file on a disk that stands still) must not
/// delay signals and heartbeats. It takes the workers' output, and while it lives also what this
/// process prints through std::cerr.
///
/// A writer of output checks is_full() and waits while it is true, so the queue stays small. A
/// writer to std::cerr cannot wait: if more than kMostUnread waits, its lines are left out until
/// the queue is empty; then a line says how many are missing. What a full disk does not take is
/// dropped and counted.
class ConsoleQueue {
 public:
  using Stream = OutputSink::Stream;
  static constexpr std::size_t kMostUnread = 4 << 20;

  struct Events {
    /// Once, if output of the workers is lost because stdout or stderr has lost its reader.
    std::function<void()> gone;
    /// Once for each of them, if it cannot be written for another reason.
    std::function<void(const std::string& text)> failed;
  };
  ConsoleQueue(asio::io_context& io, Events events);
  /// Waits until what is for a file is written.
  ~ConsoleQueue();
  ConsoleQueue(const ConsoleQueue&) = delete;
  ConsoleQueue& operator=(const ConsoleQueue&) = delete;

  void write(Stream stream, std::string_view text);
  /// Call it if another file may have been put in place of stdout or stderr (Detachment).
  void look_again();
  bool is_full() const;
  std::size_t waiting_bytes() const;
  /// How much was dropped because it could not be written, "" if nothing was.
  std::string what_was_dropped() const;

  /// No line of std::cerr is left out from now on. Those before are counted now.
  void keep_last_lines();
  /// What waits is lost, and so is all that this process will write to the same stream: nothing
  /// waits for its reader any more. A file has none; what is for it is written all the same.
  void give_up();

 private:
  struct Output {
    Output(asio::io_context& io, int descriptor);
    int target() const { return reopened.get() >= 0 ? reopened.get() : fd; }
    std::size_t waiting_bytes() const { return gone ? 0 : queue.size() + in_thread_bytes; }
    int fd;
    /// The same pipe or terminal, non-blocking: the flag of `fd` counts for all who share it, the
    /// user's shell too. -1: it cannot be opened again, or is neither.
    OwnedFd reopened;
    /// An epoll instance that watches the target, because asio makes non-blocking what it watches;
    /// closed if the target never lets a writer wait.
    asio::posix::stream_descriptor readiness;
    bool is_on_disk = false;  // then a thread writes it
    std::string queue;
    std::size_t in_thread_bytes = 0;  // that it has not written yet
    bool has_output = false;          // of workers, in the queue
    bool waiting = false;
    bool gone = false;
    bool has_reported = false;  // that it is gone
    std::int64_t dropped_bytes = 0;
  };
  class Cerr final : public std::streambuf {
   public:
    explicit Cerr(ConsoleQueue& queue) : queue_(queue) {}

   protected:
    int_type overflow(int_type character) override;
    std::streamsize xsputn(const char* text, std::streamsize bytes) override;

   private:
    ConsoleQueue& queue_;
  };

  void say(std::string_view text);
  void say_what_is_missing();
  void add(Output& output, std::string_view text);
  void pump(Output& output);
  void add_to_thread(Output& output, std::string text);
  void drop(Output& output, std::size_t bytes, int error_number);
  void report_gone(Output& output);

  const Events events_;
  std::array<Output, 2> outputs_;
  Cerr cerr_{*this};
  std::streambuf* before_ = nullptr;  // std::cerr's own; nullptr: that is unchanged
  bool at_line_start_ = true;         // of std::cerr
  bool is_leaving_out_ = false;
  bool keeps_all_ = false;
  std::int64_t missing_lines_ = 0;
  WriterThread thread_;  // from the start: later there may be no thread left
};

}  // namespace hgt
