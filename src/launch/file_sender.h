#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "hgtrain/launch/pushed_files.h"
#include "hgtrain/wire/frame.h"

#include "agent_messages.h"

namespace hgt {

/// The launcher's side of files that other hosts get (FileReceiver): answers what their agents ask
/// for. Must outlive the loop.
class FileSender {
 public:
  /// On the other hosts, relative paths are below `folder` or, if that is "", below the agent's
  /// working folder. `mark` is the file by which a host knows that it sees the run folder.
  /// Error(kData) if one of the files cannot be read.
  FileSender(asio::io_context& io, const PushedFiles& files, const std::string& folder,
             const std::string& mark);

  /// The message that each agent gets, with its `host`.
  const PushFiles& order() const { return order_; }

  struct Answers {
    std::function<void(const FilePart&)> part;
    std::function<void(const FileHash&)>
        hash;  ///< may come later, because the file is read once for it
  };
  /// `frame` is a PullPart or a PullHash. Error(kPeer) if it asks for a file or bytes that do not
  /// exist; Error(kData) if the file has become shorter or cannot be read any more.
  void answer(const Frame& frame, const Answers& answers);

 private:
  struct Source {
    std::string path;
    std::optional<std::uint64_t> hash = {};
    std::vector<std::function<void(const FileHash&)>> waiting = {};  // for the hash
  };
  Source& source(std::int32_t number);
  void send_hash(std::int32_t number, const std::function<void(const FileHash&)>& send);

  asio::io_context& io_;
  PushFiles order_;
  std::vector<Source> sources_;
};

}  // namespace hgt
