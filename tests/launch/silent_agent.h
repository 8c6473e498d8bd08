#pragma once

#include <string>
#include <utility>

#include <asio/io_context.hpp>

#include "hgtrain/wire/frame.h"

#include "agent_host.h"
#include "agent_link.h"
#include "output_sink.h"

namespace hgt {

/// The link to an agent that says nothing, and what the agent is sent.
class SilentAgent {
  StreamPair stream_;

 public:
  SilentAgent(asio::io_context& io, OutputSink& console, const std::string& host,
              AgentLink::Events events = {})
      : link(io, host, std::move(stream_.in[0]), std::move(stream_.out[0]), console,
             std::move(events)) {}

  AgentLink link;

  /// All frames that have come since the last call.
  std::vector<Frame> received(asio::io_context& io) {
    io.poll();
    char bytes[4096];
    FrameReader reader;
    ssize_t count;
    while ((count = recv(stream_.in[1].get(), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
      reader.feed({bytes, static_cast<std::size_t>(count)});
    std::vector<Frame> out;
    while (auto frame = reader.next()) out.push_back(std::move(*frame));
    return out;
  }
};

}  // namespace hgt
