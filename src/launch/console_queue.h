#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace hgt {

/// This process's stdout and stderr, written without ever blocking the loop: a console that does
/// not take its text (a stopped terminal, a slow pipe) must not keep signals and heartbeats from
/// being seen. Who writes looks at is_full() and waits; the queue grows no further then.
class ConsoleQueue {
 public:
  enum Stream { kOut = 0, kErr = 1 };

  /// `gone` is called once where stdout or stderr has lost its reader.
  ConsoleQueue(asio::io_context& io, std::function<void()> gone);

  void write(Stream stream, std::string_view text);
  bool is_full() const;
  bool is_empty() const;

 private:
  struct Output {
    Output(asio::io_context& io, int descriptor);
    int fd;
    asio::posix::stream_descriptor events;  // of a copy of fd; closed where fd is a file
    std::string queue;
    bool waiting = false;
    bool gone = false;
  };
  void pump(Output& output);
  std::function<void()> gone_;
  std::array<Output, 2> outputs_;
};

}  // namespace hgt
