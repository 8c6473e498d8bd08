#include "hgtrain/parallel/verify.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "transfers.h"

namespace hgt {
namespace {

using Kind = Action::Kind;
constexpr int kFree = -1;
constexpr const char* kNoSlot = "it has no such block, or its range no such slot";

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// What one rank has done so far.
class RankState {
 public:
  RankState(const StepShape& shape, const Schedule& schedule)
      : shape_(shape),
        schedule_(schedule),
        units_(shape.units.size()),
        parameters_(schedule.parameter_slot_elements.size(), kFree),
        gradients_(schedule.gradient_slot_elements.size(), kFree) {
    for (Unit& unit : units_) unit.added.assign(static_cast<std::size_t>(shape.micro_batches), 0);
    const std::vector<Range> blocks = shape.ranges();
    const std::vector<int> slots = shape.slots();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      ranges_.push_back({.blocks = blocks[i], .in_slots = std::vector<int>(at(slots[i]), kFree)});
    for_weights_.assign(static_cast<std::size_t>(shape.split().slots), kFree);
    between_.assign(static_cast<std::size_t>(shape.split().between), kFree);
  }

  /// Applies an action; returns what is wrong with it, or nullptr.
  const char* apply(const Action& a) {
    if (is_of_unit(a.kind) && (a.unit < 0 || at(a.unit) >= units_.size())) return "no such unit";
    switch (a.kind) {
      case Kind::kForward:
        return forward(a);
      case Kind::kBackward:
      case Kind::kBackwardInput:
        return backward(a);
      case Kind::kBackwardWeights:
        return backward_weights(a);
      case Kind::kGather:
        return gather(a.unit);
      case Kind::kRelease:
        return release(a.unit);
      case Kind::kClear:
        return clear(a.unit);
      case Kind::kReduce:
        return reduce(a.unit);
      case Kind::kAccumulate:
        return accumulate(a.unit);
      case Kind::kUpdate:
        return update();
      case Kind::kSumTied:
        return sum_tied();
      case Kind::kCopyTied:
        return copy_tied();
      case Kind::kReceiveInput:
        return receive_input(a);
      case Kind::kSendOutput:
      case Kind::kReceiveGradient:
      case Kind::kSendGradient:
        return nullptr;  // see transfers.h
    }
    return "no such action";
  }

  const char* end() const {
    if (!updated_) return "there is no update";
    if (tied_copies_ != (shape_.is_tied_across() ? 1 : 0)) return "the tied weights are not copied";
    for (const Unit& unit : units_)
      if (unit.gathered != shape_.gathers_after_update())
        return "not every unit is gathered after the update";
    return nullptr;
  }

 private:
  struct Unit {
    bool gathered = false;  ///< parameters; in stages 1 and 2, after the update
    bool open = false;      ///< gradients may be added
    bool reducing = false;
    std::int64_t sums = 0;
    std::vector<int> added;      ///< contributions of each micro-batch that were added
    std::int64_t all_added = 0;  ///< their sum
  };

  /// The next block of a micro-batch in a range, in its forward or backward, and in the second half
  /// of a backward in two halves.
  struct Next {
    int block;
    bool backward;
    int weights;
    bool is_at(int of, bool in_backward) const { return block == of && backward == in_backward; }
  };
  /// What has been done in one of the rank's ranges of blocks.
  struct RangeState {
    Range blocks;
    std::vector<int> in_slots;      ///< the micro-batch in each slot
    std::vector<Next> micros = {};  ///< of each micro-batch that has begun
  };

  static bool is_of_unit(Kind kind) {
    return kind == Kind::kGather || kind == Kind::kRelease || kind == Kind::kClear ||
           kind == Kind::kReduce || kind == Kind::kAccumulate;
  }
  Unit& unit_of(int block) { return units_[at(shape_.unit_of(block))]; }

  /// How many contributions a micro-batch makes to a unit: one in the backward of each block, or in
  /// each of its halves, one in the forward of the head, and there another one to a tied embedding.
  int contributions(int unit) const {
    const Range blocks = shape_.units[at(unit)].blocks;
    const bool has_head = shape_.is_head(static_cast<int>(blocks.end) - 1);
    const auto others = static_cast<int>(blocks.size()) - (has_head ? 1 : 0);
    return others * (shape_.split() ? 2 : 1) + (has_head ? 2 : 0) +
           (unit == 0 && shape_.is_tied_here() ? 1 : 0);
  }
  /// The first block of the second half of a backward in two halves.
  int last_split_block() const { return shape_.last_block() - (shape_.pipeline.is_last() ? 1 : 0); }

  const char* read(int block) {
    return shape_.stage < 3 || unit_of(block).gathered ? nullptr : "its parameters are not there";
  }
  const char* add(int block, int micro) {
    Unit& unit = unit_of(block);
    if (unit.reducing || (shape_.stage < 2 && unit.sums > 0))
      return "its gradients are being summed";
    if (shape_.stage >= 2 && !unit.open) return "its gradients were not cleared";
    ++unit.added[at(micro)];
    ++unit.all_added;
    return nullptr;
  }

  /// The range with the block, and its slot that the action names; nullptr if there is none.
  std::pair<RangeState*, int*> find_slot(const Action& a) {
    int first = 0;
    for (RangeState& range : ranges_) {
      const int slot = a.slot - first, slots = static_cast<int>(range.in_slots.size());
      if (a.block >= range.blocks.begin && a.block < range.blocks.end && slot >= 0 && slot < slots)
        return {&range, &range.in_slots[at(slot)]};
      first += slots;
    }
    return {};
  }

  const char* receive_input(const Action& a) {
    const auto [range, slot] = find_slot(a);
    if (!range) return kNoSlot;
    return *slot == kFree ? nullptr : "its slot holds another micro-batch";
  }
  const char* forward(const Action& a) {
    if (updated_) return "the update is over";
    if (a.micro < 0 || a.micro >= shape_.micro_batches)
      return "the rank does not have this micro-batch";
    const auto [range, slot] = find_slot(a);
    if (!range) return kNoSlot;
    if (a.block == range->blocks.begin && a.micro == std::ssize(range->micros)) {
      if (*slot != kFree) return "its slot holds another micro-batch";
      *slot = a.micro;
      if (shape_.splits(a.block) && !take(for_weights_, a.micro))
        return "another micro-batch waits for its weights' half in its slot";
      range->micros.push_back({a.block, false, last_split_block()});
    }
    if (*slot != a.micro || !range->micros[at(a.micro)].is_at(a.block, false))
      return "it is not the next block of its micro-batch";
    Next& next = range->micros[at(a.micro)];
    next.backward = a.block + 1 == range->blocks.end;
    next.block = next.backward ? a.block : a.block + 1;
    if (const char* fault = read(a.block)) return fault;
    if (!shape_.is_head(a.block)) return nullptr;
    const bool tied = shape_.is_tied_here();
    if (const char* fault = tied ? read(0) : nullptr) return fault;
    if (const char* fault = tied ? add(0, a.micro) : nullptr) return fault;
    return add(a.block, a.micro);
  }
  const char* backward(const Action& a) {
    const auto [range, slot] = find_slot(a);
    if (!range) return kNoSlot;
    if (a.micro < 0 || *slot != a.micro || !range->micros[at(a.micro)].is_at(a.block, true))
      return "it is not the next block of its micro-batch";
    if (shape_.splits(a.block) != (a.kind == Kind::kBackwardInput))
      return "the halves of its backward are not apart, or should not be";
    if (shape_.splits(a.block) && a.block == last_split_block() && !take(between_, a.micro))
      return "another micro-batch is between its halves in its slot";
    range->micros[at(a.micro)].block = a.block - 1;
    if (a.block == range->blocks.begin) *slot = kFree;
    if (const char* fault = a.block > 0 ? read(a.block) : nullptr) return fault;
    return add(a.block, a.micro);
  }

  /// The micro-batch may have left its slot already.
  const char* backward_weights(const Action& a) {
    const auto [range, slot] = find_slot(a);
    if (!range) return kNoSlot;
    if (a.micro < 0 || a.micro >= std::ssize(range->micros) || !shape_.splits(a.block) ||
        range->micros[at(a.micro)].weights != a.block)
      return "it is not the next weights' half of its micro-batch";
    Next& next = range->micros[at(a.micro)];
    if (!next.backward || next.block >= a.block) return "its input's half comes first";
    if (a.block == last_split_block() && a.micro != weights_begun_++)
      return "the sums would not be in the order of the micro-batches";
    next.weights = a.block - 1;
    if (a.block == range->blocks.begin) {
      slot_of(for_weights_, a.micro) = kFree;
      slot_of(between_, a.micro) = kFree;
    }
    return add(a.block, a.micro);
  }
  static int& slot_of(std::vector<int>& slots, int micro) {
    return slots[at(micro) % slots.size()];
  }
  /// Whether the micro-batch's slot was free.
  static bool take(std::vector<int>& slots, int micro) {
    return std::exchange(slot_of(slots, micro), micro) == kFree;
  }

  const char* sum_tied() {
    if (!shape_.is_tied_across()) return "nothing is tied to another stage";
    if (tied_sums_++ > 0) return "it is summed twice";
    // The head adds to the embedding in its forward, the embedding in its backward.
    const int block = shape_.pipeline.is_first() ? 0 : shape_.last_block();
    const int unit = shape_.unit_of(block);
    if (shape_.pipeline.is_first() && units_[at(unit)].sums > 0)
      return "the gradients of its unit are summed over the ranks already";
    return std::ranges::all_of(units_[at(unit)].added,
                               [&](int n) { return n == contributions(unit); })
               ? nullptr
               : "a contribution is missing";
  }
  const char* copy_tied() {
    if (!shape_.is_tied_across()) return "nothing is tied to another stage";
    if (!updated_) return "the parameters have not changed";
    if (shape_.gathers_after_update() && shape_.pipeline.is_first() && !units_[0].gathered)
      return "they are not gathered";
    return tied_copies_++ == 0 ? nullptr : "they are copied twice";
  }

  const char* gather(int unit) {
    Unit& u = units_[at(unit)];
    if (shape_.stage == 0) return "stage 0 has all parameters";
    if (shape_.stage < 3 && !updated_) return "the parameters have not changed";
    if (shape_.stage == 3 && updated_) return "it is not released before the end";
    if (u.gathered) return "it is gathered already";
    u.gathered = true;
    if (shape_.stage < 3) return nullptr;
    return fill(unit, schedule_.parameter_slots, schedule_.parameter_slot_elements, parameters_);
  }
  const char* release(int unit) {
    Unit& u = units_[at(unit)];
    if (shape_.stage < 3 || !u.gathered) return "it is not gathered";
    parameters_[at(schedule_.parameter_slots[at(unit)])] = kFree;
    u.gathered = false;
    return nullptr;
  }

  const char* clear(int unit) {
    if (shape_.stage < 2) return "the stage has no gradient slots";
    units_[at(unit)].open = true;
    return fill(unit, schedule_.gradient_slots, schedule_.gradient_slot_elements, gradients_);
  }
  /// Puts a unit into its slot.
  const char* fill(int unit, const std::vector<int>& slots,
                   const std::vector<std::int64_t>& elements, std::vector<int>& content) const {
    const std::size_t slot = at(unit) < slots.size() ? at(slots[at(unit)]) : content.size();
    if (slot >= content.size()) return "it has no slot";
    if (elements[slot] < shape_.units[at(unit)].elements.size())
      return "it does not fit in its slot";
    if (content[slot] != kFree) return "its slot is not free";
    content[slot] = unit;
    return nullptr;
  }
  const char* reduce(int unit) {
    Unit& u = units_[at(unit)];
    if (shape_.stage < 2) {
      if (u.sums++ > 0) return "it is summed twice";
      if (shape_.is_tied_across() && shape_.pipeline.is_first() && unit == 0 && tied_sums_ == 0)
        return "the head's gradients of the embedding are missing";
      return is_complete(unit, shape_.micro_batches) ? nullptr : "a contribution is missing";
    }
    if (!u.open) return "its gradients were not cleared";
    u.open = false;
    u.reducing = true;
    const std::int64_t micros = std::min(++u.sums, shape_.micro_batches);
    // The micro-batches before the last one were complete when they were summed.
    const bool is_complete =
        u.all_added == micros * contributions(unit) &&
        (u.sums > micros || u.added[static_cast<std::size_t>(micros - 1)] == contributions(unit));
    return is_complete ? nullptr : "a contribution is missing, or one too many";
  }
  /// Whether the first `micros` micro-batches have added all, and the others nothing.
  bool is_complete(int unit, std::int64_t micros) const {
    const std::vector<int>& added = units_[at(unit)].added;
    for (std::size_t micro = 0; micro < added.size(); ++micro)
      if (added[micro] != (static_cast<std::int64_t>(micro) < micros ? contributions(unit) : 0))
        return false;
    return true;
  }
  const char* accumulate(int unit) {
    Unit& u = units_[at(unit)];
    if (!u.reducing) return "it is not being summed";
    u.reducing = false;
    gradients_[at(schedule_.gradient_slots[at(unit)])] = kFree;
    return nullptr;
  }

  const char* update() {
    if (updated_) return "it is the second update";
    updated_ = true;
    if (tied_sums_ != (shape_.is_tied_across() ? 1 : 0)) return "the tied gradients are not summed";
    const std::int64_t sums = shape_.stage < 2 ? 1 : shape_.max_micro_batches;
    for (int unit = 0; at(unit) < units_.size(); ++unit) {
      const Unit& u = units_[at(unit)];
      if (u.sums != sums) return "a unit is not summed, or too often";
      if (u.open || u.reducing) return "a sum is not accumulated";
      if (!is_complete(unit, shape_.micro_batches)) return "a contribution is missing";
      if (u.gathered) return "a unit is not released";
    }
    return nullptr;
  }

  const StepShape& shape_;
  const Schedule& schedule_;
  std::vector<Unit> units_;
  std::vector<int> parameters_, gradients_;  ///< the unit in each slot
  std::vector<RangeState> ranges_;
  int weights_begun_ = 0;                   ///< how many weights' halves have
  std::vector<int> for_weights_, between_;  ///< as in_slots, of backwards in two halves
  int tied_sums_ = 0, tied_copies_ = 0;
  bool updated_ = false;
};

/// Whether the action is a collective: of a data-parallel group or, for a tied embedding, with a
/// rank of another group. The order of the latter counts too, because otherwise two ranks of each
/// group could wait for each other in a circle.
bool is_collective(const Action& action, int stage) {
  return action.kind == Kind::kReduce || action.kind == Kind::kUpdate ||
         action.kind == Kind::kSumTied || action.kind == Kind::kCopyTied ||
         (action.kind == Kind::kGather && stage > 0);
}

std::vector<Action> collectives_of(const ScheduledRank& rank) {
  std::vector<Action> out;
  for (const Action& action : rank.schedule->actions)
    if (is_collective(action, rank.shape->stage)) out.push_back(action);
  return out;
}

std::string fault_of(int rank, const ScheduledRank& scheduled) {
  RankState state(*scheduled.shape, *scheduled.schedule);
  const std::vector<Action>& actions = scheduled.schedule->actions;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (const char* fault = state.apply(actions[i]))
      return fmt::format("rank {}, action {} ({}): {}", rank, i, text_of(actions[i]), fault);
  if (const char* fault = state.end()) return fmt::format("rank {}: {}", rank, fault);
  return "";
}

}  // namespace

std::string find_fault(std::span<const ScheduledRank> ranks) {
  std::vector<Action> expected;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (std::string fault = fault_of(static_cast<int>(rank), ranks[rank]); !fault.empty())
      return fault;
    std::vector<Action> collectives = collectives_of(ranks[rank]);
    if (rank == 0) expected = collectives;
    const auto [mine, other] = std::ranges::mismatch(collectives, expected);
    if (mine == collectives.end() && other == expected.end()) continue;
    return fmt::format("rank {} is at {}, but rank 0 is at {}", rank,
                       mine == collectives.end() ? "the end" : text_of(*mine),
                       other == expected.end() ? "the end" : text_of(*other));
  }
  return "";
}

std::string find_fault(const StepShape& shape, const Schedule& schedule) {
  StepShape peer = shape;
  peer.micro_batches = shape.micro_batches < shape.max_micro_batches
                           ? shape.max_micro_batches
                           : std::max<std::int64_t>(0, shape.micro_batches - 1);
  const Schedule peers = make_schedule(peer);
  const ScheduledRank ranks[] = {{&shape, &schedule}, {&peer, &peers}};
  for (const auto& [each, of_each] : ranks)
    if (std::string fault = find_transfer_fault(*each, *of_each); !fault.empty()) return fault;
  return find_fault(ranks);
}

}  // namespace hgt
