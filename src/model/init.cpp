#include "hgtrain/model/init.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/normal.h"

namespace hgt {
void init_parameters(const ParameterTable& table, std::uint64_t seed, Range elements,
                     std::span<float> values, ThreadPool& pool, TensorRank tensor) {
  if (elements.end > table.total || std::ssize(values) != elements.size())
    throw Error(ErrorKind::kInternal,
                fmt::format("init: {} values for elements {} to {} of a table of {}", values.size(),
                            elements.begin, elements.end, table.total));
  pool.parallel_for(elements.size(), [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(values.begin() + begin, values.begin() + end, 0.0f);
  });
  for (const Parameter& p : table.parameters) {
    const Range local{std::max(p.offset, elements.begin) - p.offset,
                      std::min(p.offset + p.numel, elements.end) - p.offset};
    p.placement(tensor).for_each_run(local, [&](const Placement::Run& run) {
      float* const to = values.data() + (p.offset + run.local - elements.begin);
      if (p.init.kind == Init::kOnes)
        std::fill_n(to, run.size, 1.0f);
      else if (p.init.kind == Init::kNormal)
        normal_fill(seed, p.random_stream(), static_cast<float>(p.init.std), run.whole,
                    Tensor(to, {run.size}), Stream(pool));
    });
  }
}

}  // namespace hgt
