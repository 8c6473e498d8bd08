#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "recording_file_ops.h"

namespace hgt {

/// A disk as POSIX promises it and no better. A file's bytes are sure up to its last fsync; of each
/// later write all, a part or nothing may have arrived, or only the size. The names in a folder are
/// sure up to the folder's last fsync; of the later changes any may have arrived, in any
/// combination, before or without the bytes of the files. A rename is one change: it never leaves
/// both names or none.
class DiskModel {
 public:
  /// Everything below `root` is modelled; the root itself is there from the start.
  explicit DiskModel(std::string root) : root_(std::move(root)) { nodes_[0].folder = true; }

  void apply(const FileOp& op);

  /// How a change that is not sure ends: kLost, kWhole, kTorn (the first half), kZeros (the size
  /// only).
  enum Fate { kLost, kWhole, kTorn, kZeros };
  /// What a crash leaves: path below the root -> the bytes of a file; "" with a trailing '/' for a
  /// folder. `fate` is asked once for every unsure change; a change of names ends kLost or else
  /// whole.
  using Tree = std::map<std::string, std::string>;
  Tree crash(const std::function<Fate(bool is_name)>& fate) const;

 private:
  struct NameChange {
    std::string remove;  ///< "" if nothing goes
    std::string add;     ///< "" if nothing comes
    int node = 0;
  };
  struct ByteChange {
    std::size_t offset = 0;
    std::string bytes;
    bool truncates = false;
  };
  struct Node {
    bool folder = false;
    std::map<std::string, int> names, sure_names;
    std::vector<NameChange> name_changes;
    std::string sure_bytes;
    std::vector<ByteChange> byte_changes;
  };
  struct Place {
    int folder;
    std::string name;
  };
  Place locate(const std::string& path) const;
  int find(const std::string& path) const;
  void change_names(int folder, const NameChange& change);
  void collect(int node, const std::string& path, const std::function<Fate(bool)>& fate,
               Tree& out) const;

  std::string root_;
  std::map<int, Node> nodes_;
};

}  // namespace hgt
