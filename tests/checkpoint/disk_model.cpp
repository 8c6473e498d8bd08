#include "disk_model.h"

#include <stdexcept>

namespace hgt {

namespace {

void put(std::map<std::string, int>& names, const std::string& remove, const std::string& add,
         int node) {
  if (!remove.empty()) names.erase(remove);
  if (!add.empty()) names[add] = node;
}

}  // namespace

DiskModel::Place DiskModel::locate(const std::string& path) const {
  if (!path.starts_with(root_ + "/")) throw std::logic_error("outside the model: " + path);
  Place place{0, ""};
  std::size_t at = root_.size() + 1;
  for (std::size_t slash; (slash = path.find('/', at)) != std::string::npos; at = slash + 1)
    place.folder = nodes_.at(place.folder).names.at(path.substr(at, slash - at));
  place.name = path.substr(at);
  return place;
}

int DiskModel::find(const std::string& path) const {
  if (path == root_) return 0;
  const Place place = locate(path);
  return nodes_.at(place.folder).names.at(place.name);
}

void DiskModel::change_names(int folder, const NameChange& change) {
  Node& node = nodes_.at(folder);
  put(node.names, change.remove, change.add, change.node);
  node.name_changes.push_back(change);
}

void DiskModel::apply(const FileOp& op) {
  switch (op.kind) {
    case FileOp::kMark:
      return;
    case FileOp::kCreate:
    case FileOp::kMkdir: {
      const int id = static_cast<int>(nodes_.size());
      nodes_[id].folder = op.kind == FileOp::kMkdir;
      const Place place = locate(op.path);
      return change_names(place.folder, {"", place.name, id});
    }
    case FileOp::kUnlink:
    case FileOp::kRmdir: {
      const Place place = locate(op.path);
      return change_names(place.folder, {place.name, "", 0});
    }
    case FileOp::kRename: {
      const Place from = locate(op.path), to = locate(op.to);
      if (from.folder != to.folder) throw std::logic_error("rename across folders");
      return change_names(from.folder, {from.name, to.name, find(op.path)});
    }
    case FileOp::kTruncate:
      nodes_.at(find(op.path))
          .byte_changes.push_back({static_cast<std::size_t>(op.offset), "", true});
      return;
    case FileOp::kWrite:
      nodes_.at(find(op.path))
          .byte_changes.push_back({static_cast<std::size_t>(op.offset), op.bytes, false});
      return;
    case FileOp::kSync: {
      Node& node = nodes_.at(find(op.path));
      const auto whole = [](bool) { return kWhole; };
      Tree synced;
      if (!node.folder) {
        collect(find(op.path), "f", whole, synced);
        node.sure_bytes = synced.at("f");
      }
      node.byte_changes.clear();
      node.sure_names = node.names;
      node.name_changes.clear();
    }
  }
}

void DiskModel::collect(int id, const std::string& path, const std::function<Fate(bool)>& fate,
                        Tree& out) const {
  const Node& node = nodes_.at(id);
  if (node.folder) {
    auto names = node.sure_names;
    for (const NameChange& change : node.name_changes)
      if (fate(true) != kLost) put(names, change.remove, change.add, change.node);
    if (!path.empty()) out[path + "/"] = "";
    for (const auto& [name, child] : names)
      collect(child, path.empty() ? name : path + "/" + name, fate, out);
    return;
  }
  std::string bytes = node.sure_bytes;
  for (const ByteChange& change : node.byte_changes) {
    const Fate end = fate(false);
    if (end == kLost) continue;
    if (change.truncates) {
      bytes.resize(change.offset, '\0');
      continue;
    }
    std::string arrived = change.bytes;
    if (end == kTorn) arrived.resize(arrived.size() / 2);
    if (end == kZeros) arrived.assign(arrived.size(), '\0');
    bytes.resize(std::max(bytes.size(), change.offset + arrived.size()), '\0');
    bytes.replace(change.offset, arrived.size(), arrived);
  }
  out[path] = bytes;
}

DiskModel::Tree DiskModel::crash(const std::function<Fate(bool)>& fate) const {
  Tree out;
  collect(0, "", fate, out);
  return out;
}

}  // namespace hgt
