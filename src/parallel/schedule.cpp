#include "hgtrain/parallel/schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "passes.h"

namespace hgt {
namespace {

using Kind = Action::Kind;

}  // namespace

/// The first stage never splits, because it would have nothing to do before its second halves.
SplitBackward split_backward(const PipelineStage& stage, std::int64_t micro_batches) {
  if (stage.schedule != PipelineSchedule::kZbH1 || stage.is_first()) return {};
  const std::int64_t max_held = std::max<std::int64_t>(micro_batches, 1);
  return {std::min<std::int64_t>(stage.count, max_held),
          std::min<std::int64_t>(stage.index + 1, max_held)};
}

std::vector<Unit> make_units(std::span<const Range> blocks, std::int64_t max_elements,
                             bool first_alone) {
  std::vector<Unit> units;
  for (std::int64_t block = std::ssize(blocks); block-- > 0;) {  // backward runs downwards
    const Range& elements = blocks[static_cast<std::size_t>(block)];
    const bool alone = units.empty() || (first_alone && block == 0);
    if (!alone && units.back().elements.end - elements.begin <= max_elements) {
      units.back().elements.begin = elements.begin;
      units.back().blocks.begin = block;
    } else {
      units.push_back({{block, block + 1}, elements});
    }
  }
  std::ranges::reverse(units);
  return units;
}

std::vector<Range> StepShape::ranges() const {
  std::vector<Range> out;
  for (const Unit& unit : units) {
    if (unit.range == std::ssize(out)) out.push_back(unit.blocks);
    out.back().end = unit.blocks.end;
  }
  return out;
}

bool StepShape::begins_range(int block) const {
  const auto unit = static_cast<std::size_t>(unit_of(block));
  return units[unit].blocks.begin == block &&
         (unit == 0 || units[unit - 1].range != units[unit].range);
}

bool StepShape::ends_range(int block) const {
  const auto unit = static_cast<std::size_t>(unit_of(block));
  return units[unit].blocks.end == block + 1 &&
         (unit + 1 == units.size() || units[unit + 1].range != units[unit].range);
}

std::vector<int> StepShape::slots() const {
  std::vector<int> held(ranges().size(), 0), max_held(held.size(), 1);
  if (holds_all(pipeline)) {
    std::ranges::fill(max_held, std::max(1, static_cast<int>(max_micro_batches)));
    return max_held;
  }
  // It holds the most of them before the warm-up is over, which takes at most two groups of as many
  // as there are stages.
  const auto micros =
      static_cast<int>(std::min<std::int64_t>(max_micro_batches, 4 * pipeline.count));
  for (const Pass& pass : passes_of(pipeline, static_cast<int>(held.size()), micros)) {
    const auto range = static_cast<std::size_t>(pass.range);
    if (pass.kind == Kind::kBackwardWeights) continue;
    held[range] += pass.kind == Kind::kForward ? 1 : -1;
    max_held[range] = std::max(max_held[range], held[range]);
  }
  return max_held;
}

int StepShape::slot_count() const {
  const std::vector<int> of_ranges = slots();
  return std::accumulate(of_ranges.begin(), of_ranges.end(), 0);
}

int StepShape::unit_of(int block) const {
  const auto unit = std::ranges::find_if(
      units, [&](const Unit& u) { return u.blocks.begin <= block && block < u.blocks.end; });
  return static_cast<int>(unit - units.begin());
}

std::string text_of(const Action& action) {
  switch (action.kind) {
    case Kind::kForward:
      return fmt::format("F{}.{}", action.block, action.micro);
    case Kind::kBackward:
      return fmt::format("B{}.{}", action.block, action.micro);
    case Kind::kBackwardInput:
      return fmt::format("I{}.{}", action.block, action.micro);
    case Kind::kBackwardWeights:
      return fmt::format("W{}.{}", action.block, action.micro);
    case Kind::kGather:
      return fmt::format("G{}", action.unit);
    case Kind::kRelease:
      return fmt::format("X{}", action.unit);
    case Kind::kClear:
      return fmt::format("C{}", action.unit);
    case Kind::kReduce:
      return fmt::format("R{}", action.unit);
    case Kind::kAccumulate:
      return fmt::format("A{}", action.unit);
    case Kind::kUpdate:
      return "U";
    case Kind::kReceiveInput:
      return fmt::format("<F{}.{}", action.block, action.micro);
    case Kind::kSendOutput:
      return fmt::format(">F{}.{}", action.block, action.micro);
    case Kind::kReceiveGradient:
      return fmt::format("<B{}.{}", action.block, action.micro);
    case Kind::kSendGradient:
      return fmt::format(">B{}.{}", action.block, action.micro);
    case Kind::kSumTied:
      return "T";
    case Kind::kCopyTied:
      return "E";
  }
  return "?";
}

}  // namespace hgt
