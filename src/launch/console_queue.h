#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "output_sink.h"

namespace hgt {

/// This process's stdout and stderr, written without ever blocking the loop: a console that does
/// not take its text (a stopped terminal, a slow pipe) must not delay signals and heartbeats. A
/// writer checks is_full() and waits while it is true, so the queue stays small. What a full disk
/// does not take is dropped and counted.
class ConsoleQueue {
 public:
  using Stream = OutputSink::Stream;
  struct Events {
    /// Once, if stdout or stderr has lost its reader.
    std::function<void()> gone;
    /// Once for each of them, if it cannot be written for another reason.
    std::function<void(const std::string& text)> failed;
  };
  ConsoleQueue(asio::io_context& io, Events events);

  void write(Stream stream, std::string_view text);
  bool is_full() const;
  bool is_empty() const;
  /// How much was dropped because it could not be written, "" if nothing was.
  std::string what_was_dropped() const;

 private:
  struct Output {
    Output(asio::io_context& io, int descriptor);
    int fd;
    asio::posix::stream_descriptor events;  // of a copy of fd; closed if fd is a file
    std::string queue;
    bool waiting = false;
    bool gone = false;
    std::int64_t dropped_bytes = 0;
  };
  void pump(Output& output);
  void drop(Output& output, int error_number);
  const Events events_;
  std::array<Output, 2> outputs_;
};

}  // namespace hgt
