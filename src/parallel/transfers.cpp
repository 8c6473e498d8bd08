#include "transfers.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace hgt {
namespace {

using Kind = Action::Kind;

/// The transfers that one end of a link has started.
struct End {
  std::vector<int> micros;             ///< in order
  std::vector<double> times;           ///< when they were started
  std::vector<std::ptrdiff_t> places;  ///< of each micro-batch in that order; -1: it has none

  void start(int micro, double time) {
    const auto at = static_cast<std::size_t>(micro);
    if (at >= places.size()) places.resize(at + 1, -1);
    places[at] = std::ssize(micros);
    micros.push_back(micro);
    times.push_back(time);
  }
  std::ptrdiff_t place(int micro) const {
    const auto at = static_cast<std::size_t>(micro);
    return micro >= 0 && at < places.size() ? places[at] : -1;
  }
};

/// One direction between two stages.
struct Link {
  using Time = std::optional<double>;
  End sent, received;

  /// When the transfer of the micro-batch was over, if it is; -1: there is none.
  Time over(std::ptrdiff_t place) const {
    if (place >= std::min(std::ssize(sent.micros), std::ssize(received.micros))) return {};
    const auto at = static_cast<std::size_t>(place);
    return std::max(sent.times[at], received.times[at]);
  }
  Time arrival(int micro) const {
    const std::ptrdiff_t place = received.place(micro);
    return place < 0 ? Time() : over(place);
  }
  /// When no transfer of the micro-batch was under way any more at the sender.
  Time departure(int micro) const {
    const std::ptrdiff_t place = sent.place(micro);
    return place < 0 ? 0 : over(place);
  }
};

/// The stages of a pipeline, of which each runs until it must wait.
class Pipeline {
 public:
  explicit Pipeline(std::span<const ScheduledRank> stages, std::span<const BlockTime> blocks = {})
      : stages_(stages),
        blocks_(blocks),
        next_(stages.size(), 0),
        now_(stages.size(), 0.0),
        forward_(stages.size()),
        back_(stages.size()) {}

  /// When the last stage has taken its last action.
  double end() const { return std::ranges::max(now_); }

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
                wait(stage, forward_[stage - 1].arrival(a.micro))) &&
               (a.block != shape.last_block() || last ||
                wait(stage, forward_[stage].departure(before))) &&
               compute(stage, a);
      case Kind::kBackward:
      case Kind::kBackwardInput:
        return (a.block != shape.last_block() || last ||
                wait(stage, back_[stage].arrival(a.micro))) &&
               compute(stage, a);
      case Kind::kBackwardWeights:
        return compute(stage, a);
      case Kind::kReceiveInput:
        forward_[stage - 1].received.start(a.micro, now_[stage]);
        return true;
      case Kind::kSendOutput:
        forward_[stage].sent.start(a.micro, now_[stage]);
        return true;
      case Kind::kReceiveGradient:
        if (!first && !wait(stage, back_[stage - 1].departure(before))) return false;
        back_[stage].received.start(a.micro, now_[stage]);
        return true;
      case Kind::kSendGradient:
        back_[stage - 1].sent.start(a.micro, now_[stage]);
        return true;
      default:
        return true;
    }
  }

  /// Whether it is known when the stage can go on.
  bool wait(std::size_t stage, std::optional<double> time) {
    if (time) now_[stage] = std::max(now_[stage], *time);
    return time.has_value();
  }
  bool compute(std::size_t stage, const Action& a) {
    if (blocks_.empty()) return true;
    const BlockTime& block = blocks_[static_cast<std::size_t>(a.block)];
    now_[stage] += a.kind == Kind::kForward           ? block.forward
                   : a.kind == Kind::kBackwardInput   ? block.backward_input
                   : a.kind == Kind::kBackwardWeights ? block.backward_weights
                                                      : block.backward();
    return true;
  }

  const std::span<const ScheduledRank> stages_;
  const std::span<const BlockTime> blocks_;  ///< empty: computing takes no time
  std::vector<std::size_t> next_;            ///< action of each stage
  std::vector<double> now_;                  ///< at each stage
  std::vector<Link> forward_, back_;         ///< between a stage and the one after it
};

}  // namespace

std::string find_transfer_fault(std::span<const ScheduledRank> stages) {
  return Pipeline(stages).run();
}

double pipeline_time(std::span<const ScheduledRank> stages, std::span<const BlockTime> blocks) {
  Pipeline pipeline(stages, blocks);
  pipeline.run();
  return pipeline.end();
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
