#include "transfers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

namespace hgt {
namespace {

using Kind = Action::Kind;

/// A micro-batch between a range of blocks and the next one.
struct Message {
  int virtual_stage = 0;  ///< of the range before; they are counted in the order of the blocks
  int micro = 0;
  bool operator==(const Message&) const = default;
};

/// The transfers that one end of a link has started.
struct End {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<Message> messages;                 ///< in order
  std::vector<double> times;                     ///< when they were started
  std::vector<std::vector<std::size_t>> places;  ///< in that order, by virtual stage and micro

  void start(const Message& message, double time) {
    const auto stage = static_cast<std::size_t>(message.virtual_stage),
               micro = static_cast<std::size_t>(message.micro);
    if (stage >= places.size()) places.resize(stage + 1);
    if (micro >= places[stage].size()) places[stage].resize(micro + 1, kNone);
    places[stage][micro] = messages.size();
    messages.push_back(message);
    times.push_back(time);
  }
  /// The message's place in the order; kNone if it was not started.
  std::size_t index_of(const Message& message) const {
    const auto stage = static_cast<std::size_t>(message.virtual_stage),
               micro = static_cast<std::size_t>(message.micro);
    return stage < places.size() && micro < places[stage].size() ? places[stage][micro] : kNone;
  }
};

/// One direction between two stages.
struct Link {
  using Time = std::optional<double>;
  End sent, received;

  /// When a transfer was over, if it is.
  Time over(std::size_t place) const {
    if (place >= std::min(sent.messages.size(), received.messages.size())) return {};
    return std::max(sent.times[place], received.times[place]);
  }
  Time arrival(const Message& message) const { return over(received.index_of(message)); }
  /// When the message was not under way any more at the sender, which has started to send it.
  Time departure(const Message& message) const { return over(sent.index_of(message)); }
};

/// A stage, which runs until it must wait.
struct Stage {
  const std::vector<Action>* actions;
  std::vector<Range> ranges;
  std::size_t next = 0;  ///< action
  double now = 0;
  /// What was sent last from the memory of each slot.
  std::map<int, Message> outputs = {}, input_gradients = {};
};

class Pipeline {
 public:
  /// `blocks`: how long each computes; empty: computing takes no time.
  explicit Pipeline(std::span<const ScheduledRank> stages, std::span<const BlockTime> blocks = {})
      : blocks_(blocks), forward_(stages.size()), back_(stages.size()) {
    for (const ScheduledRank& stage : stages)
      stages_.push_back({&stage.schedule->actions, stage.shape->ranges()});
    virtual_stages_ = static_cast<int>(stages.size() * stages_.front().ranges.size());
  }

  /// When the last stage has taken its last action.
  double end() const { return std::ranges::max_element(stages_, {}, &Stage::now)->now; }

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < stages_.size(); ++i)
        for (Stage& stage = stages_[i];
             stage.next < stage.actions->size() && take(i, (*stage.actions)[stage.next]);
             ++stage.next)
          moved = true;
    }
    for (std::size_t i = 0; i < stages_.size(); ++i)
      if (const Stage& stage = stages_[i]; stage.next < stage.actions->size())
        return fmt::format("deadlock: stage {} cannot pass action {} ({})", i, stage.next,
                           text_of((*stage.actions)[stage.next]));
    for (std::size_t i = 0; i < stages_.size(); ++i)
      for (const Link* link : {&forward_[i], &back_[i]})
        if (link->sent.messages != link->received.messages)
          return fmt::format("the transfers between the stages {} and {} do not match", i,
                             (i + 1) % stages_.size());
    return "";
  }

 private:
  /// Whether the stage can take the action now.
  bool take(std::size_t i, const Action& a) {
    switch (a.kind) {
      case Kind::kSumTied:
      case Kind::kCopyTied:
        return meet(i, a.kind, 2);
      case Kind::kUpdate:
        return meet(i, a.kind, stages_.size());
      case Kind::kGather:
      case Kind::kRelease:
      case Kind::kClear:
      case Kind::kReduce:
      case Kind::kAccumulate:
        return true;  // within the stage
      default:
        return take_of_block(i, a);
    }
  }
  bool take_of_block(std::size_t i, const Action& a) {
    Stage& stage = stages_[i];
    const auto range = std::ranges::find_if(stage.ranges, [&](const Range& blocks) {
      return blocks.begin <= a.block && a.block < blocks.end;
    });
    if (range == stage.ranges.end() || a.micro < 0) return false;  // the schedule is not sound
    const int count = static_cast<int>(stages_.size());
    const int here = static_cast<int>(range - stage.ranges.begin()) * count + static_cast<int>(i);
    const Message input{here - 1, a.micro}, output{here, a.micro};
    const bool has_input = here > 0, has_output = here + 1 < virtual_stages_;
    const bool is_last_block = a.block + 1 == range->end;
    Link &from_before = forward_[before(i)], &to_before = back_[before(i)];
    switch (a.kind) {
      case Kind::kForward:
        return (a.block != range->begin || !has_input || wait(stage, from_before.arrival(input))) &&
               (!is_last_block || wait_for_slot(stage, stage.outputs, a.slot, forward_[i])) &&
               compute(stage, a);
      case Kind::kBackward:
      case Kind::kBackwardInput:
        return (!is_last_block || !has_output || wait(stage, back_[i].arrival(output))) &&
               compute(stage, a);
      case Kind::kBackwardWeights:
        return compute(stage, a);
      case Kind::kReceiveInput:
        if (has_input) from_before.received.start(input, stage.now);
        return has_input;
      case Kind::kSendOutput:
        if (has_output) forward_[i].sent.start(stage.outputs[a.slot] = output, stage.now);
        return has_output;
      case Kind::kReceiveGradient:
        if (!has_output || !wait_for_slot(stage, stage.input_gradients, a.slot, to_before))
          return false;
        back_[i].received.start(output, stage.now);
        return true;
      case Kind::kSendGradient:
        if (has_input) to_before.sent.start(stage.input_gradients[a.slot] = input, stage.now);
        return has_input;
      default:
        return false;
    }
  }
  /// A collective of some stages holds each of them until all are there.
  bool meet(std::size_t stage, Kind kind, std::size_t stages) {
    std::set<std::size_t>& there = meetings_[kind];
    there.insert(stage);
    return there.size() == stages;
  }
  std::size_t before(std::size_t stage) const {
    return (stage + stages_.size() - 1) % stages_.size();
  }

  /// Whether it is known when the stage can continue.
  static bool wait(Stage& stage, std::optional<double> time) {
    if (time) stage.now = std::max(stage.now, *time);
    return time.has_value();
  }
  /// Waits until what was sent from the slot's memory has arrived.
  static bool wait_for_slot(Stage& stage, const std::map<int, Message>& sent, int slot,
                            const Link& link) {
    const auto found = sent.find(slot);
    return found == sent.end() || wait(stage, link.departure(found->second));
  }
  bool compute(Stage& stage, const Action& a) const {
    if (a.block >= std::ssize(blocks_))
      return true;  // it passes its input through, or times do not matter
    const BlockTime& block = blocks_[static_cast<std::size_t>(a.block)];
    stage.now += a.kind == Kind::kForward           ? block.forward
                 : a.kind == Kind::kBackwardInput   ? block.backward_input
                 : a.kind == Kind::kBackwardWeights ? block.backward_weights
                                                    : block.backward();
    return true;
  }

  const std::span<const BlockTime> blocks_;
  std::vector<Stage> stages_;
  int virtual_stages_ = 0;
  /// By stage: the link to the next stage, from the last one to the first.
  std::vector<Link> forward_, back_;
  std::map<Kind, std::set<std::size_t>> meetings_;  ///< the stages that are there
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

Schedule evaluation_of(const StepShape& shape, std::int64_t micro_batches) {
  const std::int64_t round = evaluation_round(shape);
  Schedule out;
  for (std::int64_t begin = 0; begin < micro_batches; begin += round)
    for (Action action : make_evaluation(shape, std::min(round, micro_batches - begin)).round) {
      action.micro += static_cast<int>(begin);
      out.actions.push_back(action);
    }
  return out;
}

/// The other stages' blocks change no transfer: each range has one.
std::string find_transfer_fault(const StepShape& shape, const Schedule& schedule) {
  const int count = shape.pipeline.count, ranges = static_cast<int>(shape.ranges().size());
  if (count == 1) return "";
  std::vector<StepShape> shapes;
  for (int i = 0; i < count; ++i) {
    shapes.push_back(shape);
    shapes.back().pipeline.index = i;
    if (i == shape.pipeline.index) continue;
    shapes.back().units.clear();
    for (std::int64_t block = i; block < count * ranges; block += count)
      shapes.back().units.push_back(
          {{block, block + 1}, {block, block + 1}, 0, static_cast<int>(block / count)});
  }
  const auto fault_of = [&](const auto& schedule_of) {
    std::vector<Schedule> schedules;
    std::vector<ScheduledRank> stages;
    for (const StepShape& each : shapes) schedules.push_back(schedule_of(each));
    for (std::size_t i = 0; i < shapes.size(); ++i) stages.push_back({&shapes[i], &schedules[i]});
    return find_transfer_fault(stages);
  };
  const auto of_step = [&](const StepShape& each) {
    return each.pipeline.index == shape.pipeline.index ? schedule : make_schedule(each);
  };
  if (std::string fault = fault_of(of_step); !fault.empty()) return fault;
  const std::string fault =
      fault_of([&](const StepShape& each) { return evaluation_of(each, 2 * count + 1); });
  return fault.empty() ? "" : "evaluation: " + fault;
}

}  // namespace hgt
