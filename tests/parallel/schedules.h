#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// Blocks of `size` elements each, without gaps.
inline std::vector<Range> blocks_of(int count, std::int64_t size = 10) {
  std::vector<Range> out;
  for (int i = 0; i < count; ++i) out.push_back({i * size, (i + 1) * size});
  return out;
}

/// Such blocks of 10 elements, each a unit of its own.
inline StepShape shape_of(int stage, int blocks, bool tied, std::int64_t micros = 1) {
  return {.stage = stage,
          .units = make_units(blocks_of(blocks), 10, tied),
          .tied = tied,
          .micro_batches = micros,
          .max_micro_batches = micros};
}

inline std::vector<Action>::iterator find(std::vector<Action>& actions, const std::string& text) {
  return std::ranges::find(actions, text, [](const Action& a) { return text_of(a); });
}

/// Takes the action from its place, and puts it to the end of the schedule, or before another one.
inline void move(std::vector<Action>& actions, const std::string& text,
                 const std::string& before = "") {
  const Action action = *find(actions, text);
  actions.erase(find(actions, text));
  actions.insert(find(actions, before), action);
}

}  // namespace hgt
