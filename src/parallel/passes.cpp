#include "passes.h"

namespace hgt {
namespace {

using Kind = Action::Kind;

/// How many forwards come before the first backward, if there are that many; `ranges` as below.
int warm_up(const PipelineStage& stage, int ranges) {
  const int after = stage.count - 1 - stage.index;  // stages
  return ranges == 1 ? after : 2 * after + (ranges - 1) * stage.count;
}

}  // namespace

bool holds_all(const PipelineStage& stage) {
  return stage.schedule == PipelineSchedule::kGpipe && stage.count > 1;
}

std::vector<Pass> passes_of(const PipelineStage& stage, int ranges, int micros) {
  const int in_group = stage.count * ranges;
  const int count = (micros + stage.count - 1) / stage.count * in_group;
  const int ahead = holds_all(stage) ? count : warm_up(stage, ranges);
  const SplitBackward split = split_backward(stage, micros);
  const int between = split ? static_cast<int>(split.between) - 1 : 0;
  std::vector<Pass> out;
  const auto add = [&](Kind kind, int i) {
    if (i < 0 || i >= count) return;
    const int turn = i % in_group / stage.count,
              micro = i / in_group * stage.count + i % stage.count;
    if (micro >= micros) return;
    out.push_back({kind, kind == Kind::kForward ? turn : ranges - 1 - turn, micro});
  };
  for (int i = 0; i < count + ahead + between; ++i) {
    add(Kind::kForward, i);
    add(Kind::kBackward, i - ahead);
    if (split) add(Kind::kBackwardWeights, i - ahead - between);
  }
  return out;
}

}  // namespace hgt
