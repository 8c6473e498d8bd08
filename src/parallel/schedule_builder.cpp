#include <algorithm>
#include <utility>
#include <vector>

#include "hgtrain/parallel/schedule.h"

#include "passes.h"

namespace hgt {
namespace {

using Kind = Action::Kind;

/// The elements of each slot, if `slots` has that of each unit.
std::vector<std::int64_t> slot_elements(const StepShape& shape, const std::vector<int>& slots) {
  std::vector<std::int64_t> sizes;
  for (std::size_t unit = 0; unit < slots.size(); ++unit) {
    const auto slot = static_cast<std::size_t>(slots[unit]);
    sizes.resize(std::max(sizes.size(), slot + 1));
    sizes[slot] = std::max(sizes[slot], shape.units[unit].elements.size());
  }
  return sizes;
}

/// Writes the actions of a rank, and keeps track of what lies in the slots.
class Builder {
 public:
  explicit Builder(const StepShape& shape)
      : shape_(shape), units_(std::ssize(shape.units)), ranges_(shape.ranges()) {
    int first = 0;
    for (const int slots : shape.slots()) {
      progress_.push_back({.first_slot = first, .slots = slots});
      first += slots;
    }
    if (shape.stage == 3) schedule_.parameter_slots = assign(shape.parameter_slots);
    if (shape.stage >= 2) schedule_.gradient_slots = assign(shape.gradient_slots);
    schedule_.parameter_slot_elements = slot_elements(shape, schedule_.parameter_slots);
    schedule_.gradient_slot_elements = slot_elements(shape, schedule_.gradient_slots);
    parameters_.assign(schedule_.parameter_slot_elements.size(), kFree);
    gradients_.assign(schedule_.gradient_slot_elements.size(), kFree);
  }

  Schedule step() {
    for (const Pass& pass : passes_of(shape_.pipeline, static_cast<int>(ranges_.size()),
                                      static_cast<int>(shape_.max_micro_batches)))
      add_pass(pass);
    receive_inputs();
    for (std::size_t i = 0; i < computes_.size(); ++i) compute(i);
    if (shape_.is_tied_across()) add({.kind = Kind::kSumTied});
    if (shape_.stage < 2) reduce_completed(shape_.first_block());
    while (!in_flight_.empty()) accumulate(in_flight_.front());
    release_all();
    add({.kind = Kind::kUpdate});
    if (shape_.gathers_after_update())
      for (int unit = 0; unit < units_; ++unit) add({.kind = Kind::kGather, .unit = unit});
    if (shape_.is_tied_across()) add({.kind = Kind::kCopyTied});
    return std::move(schedule_);
  }

  EvaluationSchedule evaluation() {
    EvaluationSchedule out;
    const bool gathers_once = std::ssize(parameters_) == units_;
    for (int unit = 0; gathers_once && unit < units_; ++unit) gather(unit);
    std::swap(out.before, schedule_.actions);
    const int micros = std::max(static_cast<int>(shape_.micro_batches), 1);
    for (int range = 0; range < std::ssize(ranges_); ++range)
      for (int micro = 0; micro < micros; ++micro) add_pass({Kind::kForward, range, micro});
    receive_inputs();
    for (std::size_t i = 0; i < computes_.size(); ++i) {
      gather_for(i);
      if (!is_mine(computes_[i])) continue;
      add(computes_[i]);
      transfer_after(computes_[i]);
      if (shape_.ends_range(computes_[i].block)) leave_slot(computes_[i].block);
    }
    if (!gathers_once) release_all();
    std::swap(out.round, schedule_.actions);
    release_all();
    std::swap(out.after, schedule_.actions);
    return out;
  }

 private:
  static constexpr int kFree = -1;

  void add(const Action& action) { schedule_.actions.push_back(action); }
  bool is_mine(const Action& action) const { return action.micro < shape_.micro_batches; }

  Action of_micro(Kind kind, int block, int micro) const {
    const Progress& range = progress_[range_of(block)];
    return {.kind = kind,
            .block = block,
            .micro = micro,
            .slot = range.first_slot + micro % range.slots};
  }
  void add_of_micro(Kind kind, int block, int micro) { add(of_micro(kind, block, micro)); }
  std::size_t range_of(int block) const {
    const auto found = std::ranges::find_if(
        ranges_, [&](const Range& range) { return range.begin <= block && block < range.end; });
    return static_cast<std::size_t>(found - ranges_.begin());
  }

  /// Adds what a pass computes and the transfer that it waits for.
  void add_pass(const Pass& pass) {
    const auto& [begin, end] = ranges_[static_cast<std::size_t>(pass.range)];
    const int first = static_cast<int>(begin), last = static_cast<int>(end) - 1;
    for (int i = 0; i <= last - first; ++i) {
      const int block = pass.kind == Kind::kForward ? first + i : last - i;
      const bool splits = pass.kind != Kind::kForward && shape_.splits(block);
      if (pass.kind == Kind::kBackwardWeights && !splits) continue;
      computes_.push_back(
          of_micro(pass.kind == Kind::kBackward && splits ? Kind::kBackwardInput : pass.kind, block,
                   pass.micro));
    }
    if (pass.micro >= shape_.micro_batches) return;
    if (pass.kind == Kind::kForward && shape_.has_input(first))
      inputs_.push_back(of_micro(Kind::kReceiveInput, first, pass.micro));
    if (pass.kind == Kind::kBackward && shape_.has_output(last))
      output_gradients_.push_back(of_micro(Kind::kReceiveGradient, last, pass.micro));
  }

  // Transfers.

  /// Adds the transfers that the end of a pass allows.
  void transfer_after(const Action& compute) {
    Progress& range = progress_[range_of(compute.block)];
    if (compute.kind == Kind::kForward && shape_.ends_range(compute.block)) {
      ++range.forwards;
      if (shape_.has_output(compute.block))
        add_of_micro(Kind::kSendOutput, compute.block, compute.micro);
      receive_gradients();
    }
    const bool has_input_gradient =
        compute.kind == Kind::kBackward || compute.kind == Kind::kBackwardInput;
    if (has_input_gradient && shape_.begins_range(compute.block)) {
      if (shape_.has_input(compute.block))
        add_of_micro(Kind::kSendGradient, compute.block, compute.micro);
      leave_slot(compute.block);
    }
  }
  /// The next micro-batch in the block's range may have the slot.
  void leave_slot(int block) {
    ++progress_[range_of(block)].left;
    receive_inputs();
  }
  /// Receives inputs in the order of the forwards, in which they are also sent, as far as their
  /// slots are free.
  void receive_inputs() {
    while (next_input_ < inputs_.size()) {
      const Progress& range = progress_[range_of(inputs_[next_input_].block)];
      if (inputs_[next_input_].micro >= range.left + range.slots) return;
      add(inputs_[next_input_++]);
    }
  }
  /// Receives gradients in the order of the backwards, as far as their forwards are done.
  void receive_gradients() {
    while (next_gradient_ < output_gradients_.size()) {
      const Action& next = output_gradients_[next_gradient_];
      if (next.micro >= progress_[range_of(next.block)].forwards) return;
      add(output_gradients_[next_gradient_++]);
    }
  }

  std::vector<int> assign(int count) const {
    std::vector<int> slots;
    const int own = shape_.is_tied_here() && units_ > 1 ? 1 : 0;
    const int shared = std::min(count, units_ - own);
    for (int unit = 0; unit < units_; ++unit)
      slots.push_back(unit < own ? shared : (unit - own) % shared);
    return slots;
  }
  int& parameter_slot(int unit) {
    return parameters_[static_cast<std::size_t>(
        schedule_.parameter_slots[static_cast<std::size_t>(unit)])];
  }
  int& gradient_slot(int unit) {
    return gradients_[static_cast<std::size_t>(
        schedule_.gradient_slots[static_cast<std::size_t>(unit)])];
  }

  /// The units whose parameters a computation reads.
  std::vector<int> units_read(const Action& compute) const {
    std::vector<int> units = {shape_.unit_of(compute.block)};
    if (compute.kind == Kind::kBackward && compute.block == 0) return {};  // it needs no weights
    if (compute.kind == Kind::kForward && shape_.is_head(compute.block) && shape_.is_tied_here() &&
        units[0] != 0)
      units.push_back(0);
    return units;
  }

  void compute(std::size_t i) {
    const Action& action = computes_[i];
    gather_for(i);
    if (shape_.stage >= 2) prepare_gradients(action);
    if (is_mine(action)) {
      add(action);
      transfer_after(action);
    }
    if (action.kind != Kind::kBackward && action.kind != Kind::kBackwardWeights) return;
    if (shape_.stage >= 2)
      reduce_after(action.block);
    else if (action.micro == last_summed_micro() && !is_summed_over_tie(action.block))
      reduce_completed(action.block);
  }
  /// The micro-batch whose backward completes the gradients. A rank without one starts its sums at
  /// the first one of the others, so that all ranks start theirs before those of a tied embedding.
  std::int64_t last_summed_micro() const {
    return std::max<std::int64_t>(shape_.micro_batches, 1) - 1;
  }
  /// The gradients of block 0 are not complete before the other end of the tie has added its own.
  bool is_summed_over_tie(int block) const { return block == 0 && shape_.is_tied_across(); }

  // Parameters.

  /// Gathers what the computation reads and, as far as slots are free for it, what the next ones
  /// read.
  void gather_for(std::size_t i) {
    if (shape_.stage < 3) return;
    std::vector<int> near = units_read(computes_[i]);  // read earlier than the unit at hand
    for (const int unit : near) gather(unit);
    if (std::ssize(near) == units_) return;
    for (std::size_t next = i + 1; next < computes_.size(); ++next)
      for (const int unit : units_read(computes_[next])) {
        if (std::ranges::find(near, unit) != near.end()) continue;
        if (std::ranges::find(near, parameter_slot(unit)) != near.end()) return;
        gather(unit);
        near.push_back(unit);
        if (std::ssize(near) > shape_.parameter_slots || std::ssize(near) == units_) return;
      }
  }
  void gather(int unit) {
    int& slot = parameter_slot(unit);
    if (slot == unit) return;
    release(slot);
    add({.kind = Kind::kGather, .unit = unit});
    slot = unit;
  }
  void release(int& slot) {
    if (slot != kFree) add({.kind = Kind::kRelease, .unit = slot});
    slot = kFree;
  }
  void release_all() {
    for (int& slot : parameters_) release(slot);
  }

  // Gradients.

  /// Clears the units to which the computation is the first to add.
  void prepare_gradients(const Action& compute) {
    const int unit = shape_.unit_of(compute.block);
    const bool is_head = shape_.is_head(compute.block);
    const bool begins_head = compute.kind == Kind::kForward && is_head;
    if (begins_head && shape_.tied && unit != 0) clear(0);
    const bool begins =
        compute.kind == Kind::kBackward && !is_head &&
        compute.block + 1 == shape_.units[static_cast<std::size_t>(unit)].blocks.end;
    if (begins_head || (begins && !(shape_.tied && unit == 0))) clear(unit);
  }
  void clear(int unit) {
    int& slot = gradient_slot(unit);
    if (slot != kFree) accumulate(slot);
    add({.kind = Kind::kClear, .unit = unit});
    slot = unit;
  }
  void reduce_after(int block) {
    const int unit = shape_.unit_of(block);
    if (block != shape_.units[static_cast<std::size_t>(unit)].blocks.begin) return;
    add({.kind = Kind::kReduce, .unit = unit});
    in_flight_.push_back(unit);
  }
  void accumulate(int unit) {
    add({.kind = Kind::kAccumulate, .unit = unit});
    std::erase(in_flight_, unit);
    gradient_slot(unit) = kFree;
  }
  /// Before stage 2: sums the units that are complete after the backward of `block`.
  void reduce_completed(int block) {
    const int of_block = shape_.unit_of(block);
    const bool is_first = shape_.units[static_cast<std::size_t>(of_block)].blocks.begin == block;
    for (; reduced_ < units_; ++reduced_) {
      const int unit = units_ - 1 - reduced_;
      if (unit < of_block || (unit == of_block && !is_first)) return;
      add({.kind = Kind::kReduce, .unit = unit});
    }
  }

  /// How far the passes through one of the ranges are.
  struct Progress {
    int first_slot = 0, slots = 0;
    int forwards = 0, left = 0;  ///< micro-batches; those that have left their slot
  };

  const StepShape& shape_;
  const int units_;
  const std::vector<Range> ranges_;
  std::vector<Progress> progress_;  ///< of each range
  Schedule schedule_;
  std::vector<Action> computes_;             ///< of all micro-batches that any rank has
  std::vector<int> parameters_, gradients_;  ///< the unit in each slot
  std::vector<int> in_flight_;               ///< units that are reduced but not accumulated
  int reduced_ = 0;
  std::vector<Action> inputs_, output_gradients_;  ///< all that are to be received, in order
  std::size_t next_input_ = 0, next_gradient_ = 0;
};

}  // namespace

Schedule make_schedule(const StepShape& shape) {
  return Builder(shape).step();
}

std::int64_t evaluation_round(const StepShape& shape) {
  return std::clamp<std::int64_t>(shape.micro_batches, 1, shape.pipeline.count);
}

EvaluationSchedule make_evaluation(StepShape shape, std::int64_t micro_batches) {
  shape.micro_batches = micro_batches;
  return Builder(shape).evaluation();
}

}  // namespace hgt
