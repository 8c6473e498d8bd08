#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/parallel/layout.h"

namespace hgt {

/// The communicators of a rank, one for each group of the layout that it is in. A group of one rank
/// has a communicator too.
struct Groups {
  /// Every group is the whole world: data parallelism alone.
  Groups(Communicator& all) : world(&all), data(&all) {}

  Communicator* world;  ///< all ranks of the job
  Communicator* data;   ///< those that have the same part of the model
  /// Those that share each sequence; null if this rank has whole sequences.
  Communicator* context = nullptr;
  /// Those that share each layer; null if this rank has whole layers.
  Communicator* tensor = nullptr;

  // With the stage before and with the stage after, there is a group of two ranks for each
  // direction, whose rank 0 sends. Messages have no names, so this keeps the two directions apart.
  // Null if there is no such stage; in an interleaved pipeline, the first stage comes after the
  // last one.
  Communicator *input = nullptr, *output = nullptr;
  Communicator *input_gradient = nullptr, *output_gradient = nullptr;
  /// The first stage, then the last one; null on other stages, and if the embedding is not tied.
  Communicator* tied = nullptr;

  /// What the rank has sent in all of them so far; see Communicator.
  std::uint64_t sent_bytes() const;
};

/// A group of a job's ranks to connect. Groups with the same index in groups_of(), of different
/// ranks, are equal or share no rank.
struct GroupOfRanks {
  std::string name;          ///< unique in the job if there are members
  const char* thread_name;   ///< in traces; a literal
  std::vector<int> members;  ///< the job's, from the group's rank 0; none: the rank is outside
  Communicator* Groups::*place;
  std::optional<int> peer_stage = {};  ///< see GroupOptions

  /// The options to connect the group with, given those of the world; of size 0 if the rank is
  /// outside.
  GroupOptions options(const GroupOptions& world) const;
};
/// The groups of the layout besides the world, in the order in which all ranks connect them. The
/// list has the same length on all ranks, because it includes the groups that the rank is outside
/// of.
std::vector<GroupOfRanks> groups_of(const Layout& layout, int rank, bool tied);

/// The groups of a rank. Owns all their communicators except the world's.
class ConnectedGroups {
 public:
  using Connect = std::function<std::unique_ptr<Communicator>(const GroupOptions&)>;
  /// `world` outlives this object. All ranks call it together; `connect` gets the options of each
  /// group, and returns null for one that the rank is outside of.
  ConnectedGroups(const Layout& layout, bool tied, Communicator& world, const GroupOptions& options,
                  const Connect& connect);
  const Groups& get() const { return groups_; }
  void abort() noexcept;  ///< aborts all communicators except the world's

 private:
  Groups groups_;
  std::vector<std::unique_ptr<Communicator>> owned_;
};

}  // namespace hgt
