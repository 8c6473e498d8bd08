#include "transfers.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace hgt {
namespace {

using Kind = Action::Kind;

/// The transfers that one end of a link has started.
struct End {
  std::vector<int> micros;             ///< in order
  std::vector<std::ptrdiff_t> places;  ///< of each micro-batch in that order; -1: it has none

  void start(int micro) {
    const auto at = static_cast<std::size_t>(micro);
    if (at >= places.size()) places.resize(at + 1, -1);
    places[at] = std::ssize(micros);
    micros.push_back(micro);
  }
  std::ptrdiff_t place(int micro) const {
    const auto at = static_cast<std::size_t>(micro);
    return micro >= 0 && at < places.size() ? places[at] : -1;
  }
};

/// One direction between two stages.
struct Link {
  End sent, received;

  /// How many transfers are over: both ends have started them.
  std::ptrdiff_t over() const {
    return std::min(std::ssize(sent.micros), std::ssize(received.micros));
  }
  bool has_arrived(int micro) const {
    const std::ptrdiff_t place = received.place(micro);
    return place >= 0 && place < over();
  }
  /// Whether no transfer of the micro-batch is still under way at the sender.
  bool is_sent(int micro) const { return sent.place(micro) < over(); }
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
        return fmt::format("deadlock: stage {} cannot pass action {} ({})", stage, next_[stage],
                           text_of(actions(stage)[next_[stage]]));
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage)
      for (const Link* link : {&forward_[stage], &back_[stage]})
        if (link->sent.micros != link->received.micros)
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
               (a.block != shape.last_block() || last || forward_[stage].is_sent(before));
      case Kind::kBackward:
      case Kind::kBackwardInput:
        return a.block != shape.last_block() || last || back_[stage].has_arrived(a.micro);
      case Kind::kReceiveInput:
        forward_[stage - 1].received.start(a.micro);
        return true;
      case Kind::kSendOutput:
        forward_[stage].sent.start(a.micro);
        return true;
      case Kind::kReceiveGradient:
        if (!first && !back_[stage - 1].is_sent(before)) return false;
        back_[stage].received.start(a.micro);
        return true;
      case Kind::kSendGradient:
        back_[stage - 1].sent.start(a.micro);
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
