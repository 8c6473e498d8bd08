#include "hgtrain/comm/groups.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hgt {
namespace {

/// The ranks that differ from `at` only in one coordinate.
std::vector<int> along(const Layout& layout, Coordinates at, int Coordinates::*axis, int size) {
  std::vector<int> ranks;
  for (at.*axis = 0; at.*axis < size; ++(at.*axis)) ranks.push_back(layout.rank_of(at));
  return ranks;
}

}  // namespace

std::vector<GroupOfRanks> groups_of(const Layout& layout, int rank, bool tied) {
  const Coordinates at = layout.coordinates_of(rank);
  std::vector<GroupOfRanks> out;
  const auto add = [&](const char* kind, const char* thread, std::vector<int> members,
                       Communicator* Groups::*place, std::optional<int> peer_stage = {}) {
    out.push_back({fmt::format("{} {}", kind, fmt::join(members, "-")), thread, std::move(members),
                   place, peer_stage});
  };
  const auto context = [&](Coordinates of) {
    return along(layout, of, &Coordinates::context, layout.context_size);
  };
  if (layout.group_size() < layout.world_size()) {
    std::vector<int> members;
    Coordinates of = at;
    for (of.data = 0; of.data < layout.data_size; ++of.data)
      std::ranges::copy(context(of), std::back_inserter(members));
    add("data", "communication: data", std::move(members), &Groups::data);
  }
  if (layout.context_size > 1)
    add("context", "communication: context", context(at), &Groups::context);
  if (layout.tensor_size > 1)
    add("tensor", "communication: tensor",
        along(layout, at, &Coordinates::tensor, layout.tensor_size), &Groups::tensor);
  const std::vector<int> stages = along(layout, at, &Coordinates::pipeline, layout.pipeline_size);
  const auto stage = [&](int i) { return stages[static_cast<std::size_t>(i)]; };
  // Link i comes after stage i; in a ring, the last one leads to stage 0. Links that share no stage
  // are connected together: those of even numbers, and those of odd ones. In a ring of an odd
  // number of stages the last link is on its own, because it meets link 0.
  const int count = layout.pipeline_size, links = layout.virtual_stages > 1 ? count : count - 1;
  const auto turn_of = [&](int link) { return link % 2 == 0 && link + 1 == count ? 2 : link % 2; };
  const int turns = links == count && count % 2 == 1 ? 3 : std::min(links, 2);
  for (int turn = 0; turn < turns; ++turn) {
    std::vector<int> ends;  // the two ends of this rank's link
    bool from_before = false;
    std::optional<int> peer;
    for (int i = 0; i < links; ++i) {
      const int next = (i + 1) % count;
      if (turn_of(i) != turn || (at.pipeline != i && at.pipeline != next)) continue;
      ends = {stage(i), stage(next)};
      from_before = at.pipeline == next;
      peer = from_before ? i : next;
    }
    add("forward", from_before ? "pipeline: input" : "pipeline: output", ends,
        from_before ? &Groups::input : &Groups::output, peer);
    add("backward",
        from_before ? "pipeline: gradient of the input" : "pipeline: gradient of the output",
        {ends.rbegin(), ends.rend()},
        from_before ? &Groups::input_gradient : &Groups::output_gradient, peer);
  }
  const bool has_end = at.pipeline == 0 || at.pipeline + 1 == count;
  if (tied && count > 1)
    add("tied", "pipeline: tied embedding",
        has_end ? std::vector{stages.front(), stages.back()} : std::vector<int>(), &Groups::tied);
  return out;
}

GroupOptions GroupOfRanks::options(const GroupOptions& world) const {
  GroupOptions out = world;
  out.group = fmt::format("{}: {}", world.group, name);
  out.thread_name = thread_name;
  out.peer_stage = peer_stage;
  out.rounds_once = world.rounds_once && place == &Groups::data;
  out.members = members;
  out.size = static_cast<int>(members.size());
  out.rank = static_cast<int>(std::ranges::find(members, world.rank) - members.begin());
  return out;
}

std::uint64_t Groups::sent_bytes() const {
  std::uint64_t sum = data == world ? 0 : data->sent_bytes();
  for (const Communicator* const group :
       {world, context, tensor, input, output, input_gradient, output_gradient, tied})
    if (group) sum += group->sent_bytes();
  return sum;
}

ConnectedGroups::ConnectedGroups(const Layout& layout, bool tied, Communicator& world,
                                 const GroupOptions& options, const Connect& connect)
    : groups_(world) {
  GroupOptions all = options;
  all.rank = world.rank();
  for (const GroupOfRanks& group : groups_of(layout, world.rank(), tied)) {
    auto communicator =
        group.members.size() == 1 ? make_self_communicator() : connect(group.options(all));
    if (!communicator) continue;
    communicator->barrier();  // NCCL connects in the first collective, which waits for its peers
    owned_.push_back(std::move(communicator));
    groups_.*group.place = owned_.back().get();
  }
}

void ConnectedGroups::abort() noexcept {
  for (const auto& communicator : owned_) communicator->abort();
}

}  // namespace hgt
