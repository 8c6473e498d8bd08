#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hgtrain/comm/connect.h"

namespace hgt {

/// Folders of rank 0's host, for all ranks. A rank whose host does not see them reaches their files
/// through rank 0, over TCP: as long as this lives, the file operations of its process
/// (base/file_ops.h) on paths in these folders are done by rank 0. The files on the other hosts at
/// the same paths are then hidden.
class OwnerFiles {
 public:
  struct Folders {
    std::vector<std::string> paths = {};
    bool are_here = true;  ///< this rank's host sees them; true on rank 0
  };
  /// All ranks of `world` call it together, and those without the folders connect to rank 0 as
  /// connect_tcp() does. `paths` are rank 0's, the others' are ignored; a relative one counts from
  /// the working folder of each rank. The channel must outlive this object.
  OwnerFiles(ControlChannel& channel, Communicator& world, const GroupOptions& options,
             const std::string& address, const Folders& folders);
  /// On rank 0, waits until all others have destroyed theirs, unless abort() was called.
  ~OwnerFiles();

  /// The ranks that do not see the folders, ascending.
  const std::vector<int>& ranks_without() const { return ranks_without_; }
  /// Ends all connections: file operations in these folders throw Error(kPeer). Any thread may call
  /// it.
  void abort() noexcept;

 private:
  struct Served;  ///< rank 0's side
  struct Remote;  ///< that of a rank without the folders
  std::vector<int> ranks_without_;
  std::unique_ptr<Served> served_;
  std::unique_ptr<Remote> remote_;
};

}  // namespace hgt
