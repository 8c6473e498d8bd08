#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "hgtrain/base/file.h"

#include "agent_messages.h"
#include "frame_link.h"

namespace hgt {

/// The agent's side of files that its host must have (PushFiles), one after another. A file of the
/// same size and time counts as the same, as in rsync; one of the same size and another time is
/// compared by its hash. A missing file is pulled in parts into a file next to it, PATH.part-ID,
/// which gets the final name once its hash equals the launcher's. If the transfer is interrupted,
/// the next one continues that file, or removes it if another version of the file is wanted by then
/// or the file is there. An existing file with other content is an error and is never changed.
///
/// Sends FilesReady once. Must outlive the loop.
class FileReceiver {
 public:
  /// Error(kPeer) if the lists of `order` have different lengths.
  FileReceiver(asio::io_context& io, FrameLink& link, PushFiles order);

  void start();
  /// Takes an answer of the launcher. Error(kPeer) if no such answer is awaited.
  void take(const FilePart& part);
  void take(const FileHash& hash);

 private:
  void check_files();
  void tell_what_is_missing(std::size_t count);
  bool is_here() const;
  void receive();
  void pull();
  void compare(const std::string& path);
  void check_hashes();
  void finish();
  void attempt(const std::function<void()>& act);
  void fail(const std::string& why);

  std::string path_of_file() const;
  std::string partial_path() const;
  std::int64_t size() const { return order_.sizes[file_]; }
  std::int64_t time_ns() const { return order_.times_ns[file_]; }

  asio::io_context& io_;
  FrameLink& link_;
  const PushFiles order_;
  bool has_told_ = false;  // what is missing
  std::size_t file_ = 0;
  std::string path_;             // of the current file on this host
  std::optional<File> partial_;  // if it is being received
  std::int64_t received_ = 0, pulled_ = 0;
  bool is_comparing_ = false;
  std::optional<std::uint64_t> hash_here_, hash_there_;
  bool is_done_ = false;
};

/// When a file was changed last, since 1970.
std::int64_t modified_ns(const struct stat& status);

}  // namespace hgt
