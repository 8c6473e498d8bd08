#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/parallel/range.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

/// Consecutive blocks whose parameters are gathered, and whose gradients are summed, in one
/// collective.
struct Unit {
  Range blocks;
  Range elements;          ///< their part of the flat layout
  std::int64_t local = 0;  ///< the same as Slice::local
  int range = 0;           ///< which of the rank's ranges of blocks it is in
  bool operator==(const Unit&) const = default;

  Slice slice() const { return {elements, local}; }
  Range place() const { return {local, local + elements.size()}; }  ///< in the rank's buffers
};

/// Cuts the model, whose blocks are given in ascending order without gaps, into units, in ascending
/// order. A unit has at most `max_elements`, or a single block. If `first_alone`, block 0 is a unit
/// of its own.
std::vector<Unit> make_units(std::span<const Range> blocks, std::int64_t max_elements,
                             bool first_alone = false);

/// In which order the stages of a pipeline compute the micro-batches.
enum class PipelineSchedule {
  kGpipe,  ///< all forwards, then all backwards
  k1F1B,   ///< one forward, then one backward, so that few micro-batches are held at once
  /// 1F1B, but a later stage computes the gradients of weights, which no stage waits for, later,
  /// when it would idle; no stage holds more micro-batches than the first one of 1F1B.
  kZbH1,
};

/// A rank's place in a pipeline. Stage 0 has the embedding, the last one the head. If it is
/// interleaved, the blocks of each stage are several ranges: a micro-batch goes through the first
/// range of all stages, then through the second one of all, and so on.
struct PipelineStage {
  int index = 0;
  int count = 1;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;

  bool is_first() const { return index == 0; }
  bool is_last() const { return index + 1 == count; }
};

/// How many micro-batches a stage holds at most for the second half of a backward in two halves.
struct SplitBackward {
  /// Between their forward and their backward of the weights; 0: backwards are whole.
  std::int64_t slots = 0;
  std::int64_t between = 0;  ///< between the two halves of their backward

  explicit operator bool() const { return slots > 0; }
  /// The number of micro-batches after which the same memory is used for everything, if
  /// `activation_slots` are held until the first half.
  std::int64_t period(std::int64_t activation_slots) const {
    return *this ? std::lcm(std::lcm(activation_slots, slots), between) : activation_slots;
  }
};

SplitBackward split_backward(const PipelineStage& stage, std::int64_t micro_batches);

/// One thing for a rank to do. `block`, `micro` (counted within the rank) and `slot`, or `unit`,
/// say what it applies to. A collective or transfer is started; what needs its result waits for it.
struct Action {
  enum class Kind {
    kForward,          ///< block, micro
    kBackward,         ///< block, micro: whole
    kBackwardInput,    ///< block, micro: without the gradients of the weights
    kBackwardWeights,  ///< block, micro: only the gradients of the weights
    kGather,           ///< unit: start gathering its parameters from the ranks that own them
    kRelease,          ///< unit: its parameters are not needed any more
    kClear,            ///< unit: its gradients become 0
    kReduce,           ///< unit: start the sum of its gradients over the ranks
    kAccumulate,       ///< unit: wait for the sum, and add this rank's part of it to its shard
    kUpdate,           ///< wait for the sums, then clip and step the optimizer

    // Between stages of a pipeline: block, the first or last of a range, and micro.
    kReceiveInput,     ///< what the first block computes with, from the stage before
    kSendOutput,       ///< what the last block has computed, to the stage after
    kReceiveGradient,  ///< of the last block's output, from the stage after
    kSendGradient,     ///< of the first block's input, to the stage before

    // Between the first and the last stage, if the embedding is tied:
    kSumTied,   ///< the head's gradients of the embedding are added to those of block 0
    kCopyTied,  ///< the head gets the updated embedding
  };
  Kind kind = Kind::kUpdate;
  int block = 0;
  int micro = 0;
  int slot = 0;  ///< of the micro-batch in the block's range: see StepShape::slots
  int unit = 0;
  bool operator==(const Action&) const = default;
};

/// "F3.0": forward of block 3, micro-batch 0. B: backward; I and W: its halves, of the input and of
/// the weights; G2: gather unit 2; X: release; C: clear; R: reduce; A: accumulate; U: update.
/// "<F3.0": receive the input of block 3, micro-batch 0; ">F4.0": send the output of block 4;
/// "<B4.0" and ">B3.0": the same for their gradients. T: sum the tied gradients; E: copy the tied
/// embedding.
std::string text_of(const Action& action);

/// What determines a rank's schedule. All ranks have equal values except for `micro_batches`.
struct StepShape {
  int stage = 0;                   ///< of ZeRO; see Schedule
  std::vector<Unit> units;         ///< of the rank's blocks, in their order; there is one at least
  bool tied = false;               ///< the head also uses the parameters of block 0
  std::int64_t micro_batches = 1;  ///< of this rank
  std::int64_t max_micro_batches = 1;  ///< of any rank: all ranks take part in as many sums
  int parameter_slots = 2;             ///< stage 3: at least 1
  int gradient_slots = 2;              ///< stages 2 and 3: at least 1
  PipelineStage pipeline = {};         ///< stages of ZeRO above 1 need a pipeline of one

  bool gathers_after_update() const { return stage == 1 || stage == 2; }
  /// The rank's blocks: a range, or several in an interleaved pipeline, in the order in which a
  /// micro-batch goes through them; between two ranges it is on other ranks. A range without layers
  /// is one block that passes its input through, with a number above all others. Without a
  /// pipeline, the range is the whole model.
  std::vector<Range> ranges() const;
  bool begins_range(int block) const;
  bool ends_range(int block) const;
  int first_block() const { return static_cast<int>(units.front().blocks.begin); }
  int last_block() const { return static_cast<int>(units.back().blocks.end) - 1; }
  bool is_head(int block) const { return pipeline.is_last() && block == last_block(); }
  /// Whether the head uses the parameters of block 0, and this rank has both.
  bool is_tied_here() const { return tied && pipeline.count == 1; }
  /// Whether the head uses the parameters of block 0, and this rank has only one of the two.
  bool is_tied_across() const {
    return tied && pipeline.count > 1 && (pipeline.is_first() || pipeline.is_last());
  }
  /// Whether the range that begins with the block gets its input from another stage.
  bool has_input(int block) const { return block > 0 && begins_range(block); }
  /// Whether the output of the range that ends with the block goes to another stage.
  bool has_output(int block) const { return ends_range(block) && !is_head(block); }
  SplitBackward split() const { return split_backward(pipeline, max_micro_batches); }
  /// Whether the backward of the block is in two halves: that of a layer in a stage that splits it.
  bool splits(int block) const { return split() && !is_head(block); }
  /// For each range, how many micro-batches are held at most between their forward and their
  /// backward there: that of the input, if it is split. Each has a slot of its own; slots are
  /// counted through all ranges.
  std::vector<int> slots() const;
  int slot_count() const;  ///< of all ranges
  int unit_of(int block) const;
};

/// A step's actions, and the slots of its units.
///
///   stage 0  every rank has all parameters and gradients. A unit is summed once the rank's last
///            micro-batch completes its gradients.
///   stage 1  the same, but a rank gets only its part of the sum and updates only its part of the
///            parameters; these are gathered after the update.
///   stage 2  gradients lie in slots: a unit is cleared before its first gradient of a micro-batch,
///            summed after its last, and accumulated before its slot is used again.
///   stage 3  parameters, too: a unit is gathered ahead of its use, and released when its slot is
///            needed for another one, or at the end.
///
/// In a pipeline, each stage does so with its own blocks. Transfers are received as early as the
/// memory of their micro-batch is free. If it is interleaved, micro-batches go through the ranges
/// in groups of as many as there are stages. If the last group has fewer, the order is that of a
/// whole group without the missing ones: so any number of micro-batches is as sound as whole
/// groups. The weights' halves of split backwards are in the order of the micro-batches, so that
/// sums are the same as with whole ones.
///
/// A unit has a fixed slot. If the embedding is tied, unit 0 has one of its own, because its
/// gradients begin in the head and its parameters are used there.
/// Sources: Rajbhandari et al. 2020, arXiv:1910.02054; for pipelines Huang et al. 2019,
/// arXiv:1811.06965 (GPipe), Narayanan et al. 2021, arXiv:2104.04473 (1F1B, interleaved), and Qi et
/// al. 2023, arXiv:2401.10241 (ZB-H1).
struct Schedule {
  std::vector<Action> actions;
  std::vector<int> parameter_slots;  ///< of each unit; empty before stage 3
  std::vector<int> gradient_slots;   ///< of each unit; empty before stage 2
  /// The elements of each slot: those of the largest unit that uses it.
  std::vector<std::int64_t> parameter_slot_elements, gradient_slot_elements;
};

Schedule make_schedule(const StepShape& shape);

/// The actions of an evaluation, with the same slots: forwards, in stage 3 with gathers and
/// releases, in a pipeline with transfers. If every unit has a slot of its own, it is gathered once
/// for all micro-batches. `round` is for some micro-batches: in an interleaved pipeline, all of
/// them go through the first range of all stages, then through the second one of all, and so on.
struct EvaluationSchedule {
  std::vector<Action> before, round, after;
};

/// How many micro-batches an evaluation takes in a round: one or, in a pipeline, as many as there
/// are stages, because stages then wait for each other only at the beginning and at the end; but no
/// more than the rank has in a step.
std::int64_t evaluation_round(const StepShape& shape);

/// If there are no micro-batches, the rank only takes part in the gathers for one.
EvaluationSchedule make_evaluation(StepShape shape, std::int64_t micro_batches);

}  // namespace hgt
