#include "transfers.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace hgt {
namespace {

using Kind = Action::Kind;

/// One direction between two stages: the micro-batches whose transfers each end has started.
struct Link {
  std::vector<int> sent, received;
  /// Whether the transfer of a micro-batch is over.
  bool is_over(const std::vector<int>& started, int micro) const {
    const auto place = std::ranges::find(started, micro) - started.begin();
    return place < std::min(std::ssize(sent), std::ssize(received));
  }
  bool has_arrived(int micro) const { return is_over(received, micro); }
  /// Also if nothing was ever sent.
  bool is_gone(int micro) const {
    return std::ranges::find(sent, micro) == sent.end() || is_over(sent, micro);
  }
};

/// The stages of a pipeline, of which each runs until it must wait.
class Pipeline {
 public:
  explicit Pipeline(std::span<const ScheduledRank> stages)
      : stages_(stages), next_(stages.size(), 0), forward_(stages.size()), back_(stages.size()) {}

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage)
        while (next_[stage] < actions(stage).size() && take(stage, actions(stage)[next_[stage]])) {
          ++next_[stage];
          moved = true;
        }
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (next_[stage] < actions(stage).size())
        return fmt::format("stage {} waits for ever at action {} ({})", stage, next_[stage],
                           text_of(actions(stage)[next_[stage]]));
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage)
      for (const Link* link : {&forward_[stage], &back_[stage]})
        if (link->sent != link->received)
          return fmt::format("the transfers between the stages {} and {} do not match", stage,
                             stage + 1);
    return "";
  }

 private:
  const std::vector<Action>& actions(std::size_t stage) const {
    return stages_[stage].schedule->actions;
  }

  /// Whether the stage can take the action now.
  bool take(std::size_t stage, const Action& a) {
    const StepShape& shape = *stages_[stage].shape;
    const bool first = stage == 0, last = stage + 1 == stages_.size();
    const int before = a.micro - shape.slots();  // the micro-batch whose memory it gets
    const bool with_before = a.kind == Kind::kReceiveInput || a.kind == Kind::kSendGradient;
    const bool with_after = a.kind == Kind::kSendOutput || a.kind == Kind::kReceiveGradient;
    if ((with_before && first) || (with_after && last)) return false;  // there is no such stage
    switch (a.kind) {
      case Kind::kForward:
        return (a.block != shape.first_block() || first ||
                forward_[stage - 1].has_arrived(a.micro)) &&
               (a.block != shape.last_block() || last || forward_[stage].is_gone(before));
      case Kind::kBackward:
        return a.block != shape.last_block() || last || back_[stage].has_arrived(a.micro);
      case Kind::kReceiveInput:
        forward_[stage - 1].received.push_back(a.micro);
        return true;
      case Kind::kSendOutput:
        forward_[stage].sent.push_back(a.micro);
        return true;
      case Kind::kReceiveGradient:
        if (!first && !back_[stage - 1].is_gone(before)) return false;
        back_[stage].received.push_back(a.micro);
        return true;
      case Kind::kSendGradient:
        back_[stage - 1].sent.push_back(a.micro);
        return true;
      default:
        return true;
    }
  }

  const std::span<const ScheduledRank> stages_;
  std::vector<std::size_t> next_;     ///< action of each stage
  std::vector<Link> forward_, back_;  ///< between a stage and the one after it
};

}  // namespace

std::string find_transfer_fault(std::span<const ScheduledRank> stages) {
  return Pipeline(stages).run();
}

/// The other stages' blocks change no transfer: each has one.
std::string find_transfer_fault(const StepShape& shape) {
  const int count = shape.pipeline.count;
  if (count == 1) return "";
  std::vector<StepShape> shapes;
  std::vector<Schedule> schedules;
  std::vector<ScheduledRank> stages;
  for (int i = 0; i < count; ++i) {
    shapes.push_back(shape);
    shapes.back().pipeline.index = i;
    if (i != shape.pipeline.index) shapes.back().units = {{{i, i + 1}, {i, i + 1}}};
  }
  for (const StepShape& each : shapes) schedules.push_back(make_schedule(each));
  for (std::size_t i = 0; i < shapes.size(); ++i) stages.push_back({&shapes[i], &schedules[i]});
  return find_transfer_fault(stages);
}

}  // namespace hgt
